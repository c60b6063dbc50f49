package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// kubeconfigFunction is the function kubeconfig: it builds a kubeconfig of its parts, or reduces one to one context
// (I104).
type kubeconfigFunction struct{}

func newKubeconfig() function.Function { return kubeconfigFunction{} }

func (kubeconfigFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "kubeconfig"
}

// The attributes of the two forms that the argument may have as an object.
var (
	minimizeAttributes = []string{"content", "context"}
	buildAttributes    = []string{
		"name", "namespace", "host", "cluster_ca_certificate", "insecure", "tls_server_name", "proxy_url",
		"token", "client_certificate", "client_key", "exec",
	}
	execAttributes = []string{"api_version", "command", "args", "env"}
)

func (kubeconfigFunction) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "A kubeconfig with one context, built of its parts or reduced from a larger one",
		MarkdownDescription: "Gives the YAML of a kubeconfig with one cluster, one user and one context, which is the current one. The same input gives the same text. What is wrong with the input is told without its credentials.\n\n" +
			"The argument is one of:\n\n" +
			"- the content of a kubeconfig: it is reduced to its current context, with that context's cluster and user and nothing else; files that these name are read into it;\n" +
			"- `{ content, context }`: the same with the context that is named;\n" +
			"- `{ name, host, … }`: it is built. `name` is that of the cluster, the user and the context. `host` goes with `cluster_ca_certificate` or `insecure`, `tls_server_name`, `proxy_url`, `namespace`, and one credential: `token`, " +
			"`client_certificate` with `client_key`, or `exec = { api_version, command, args, env }`. They mean what they mean in the provider's `clusters`; what is null counts as left out.\n\n" +
			"The result holds credentials. A runner hides it where the argument was sensitive; otherwise wrap it in `sensitive(…)`. OpenTofu lets no provider call its own functions in its own configuration; there, `clusters` takes the parts as they are.",
		Parameters: []function.Parameter{
			function.DynamicParameter{Name: "source", MarkdownDescription: "The content of a kubeconfig, `{ content, context }`, or `{ name, host, … }`."},
		},
		Return: function.StringReturn{},
	}
}

func (kubeconfigFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var source types.Dynamic
	if resp.Error = req.Arguments.Get(ctx, &source); resp.Error != nil {
		return
	}
	content, err := kubeconfigOf(source.UnderlyingValue())
	if err != nil {
		resp.Error = function.NewArgumentFuncError(0, err.Error())
		return
	}
	resp.Error = resp.Result.Set(ctx, string(content))
}

func kubeconfigOf(source attr.Value) ([]byte, error) {
	if text, ok := source.(types.String); ok {
		return cluster.MinimizeKubeconfig(text.ValueString(), "")
	}
	all, ok := attributesOf(source)
	if !ok {
		return nil, fmt.Errorf("it has to be the content of a kubeconfig, an object { content, context } or an object { name, host, … }, not %s", kindOf(source))
	}
	parts := given{attributes: all}
	if _, found := all["content"]; found {
		parts.only("an object with content", minimizeAttributes)
		content, context := parts.text("content"), parts.text("context")
		if err := parts.problems(); err != nil {
			return nil, err
		}
		return cluster.MinimizeKubeconfig(content, context)
	}
	parts.only("an object with host", buildAttributes)
	built := cluster.KubeconfigParts{Name: parts.text("name"), Namespace: parts.text("namespace"), Entry: cluster.Entry{
		Host: parts.text("host"), ClusterCACertificate: parts.text("cluster_ca_certificate"), Insecure: parts.truth("insecure"),
		TLSServerName: parts.text("tls_server_name"), ProxyURL: parts.text("proxy_url"), Token: parts.text("token"),
		ClientCertificate: parts.text("client_certificate"), ClientKey: parts.text("client_key"), Exec: parts.exec(),
	}}
	if err := parts.problems(); err != nil {
		return nil, err
	}
	return cluster.BuildKubeconfig(built)
}

// given are the attributes of an object whose type nothing has declared. What is wrong with them is collected, by name
// and kind and never by value, which may be a credential (X9).
type given struct {
	prefix     string
	attributes map[string]attr.Value
	wrong      []error
}

func (g *given) problems() error { return errors.Join(g.wrong...) }

// only refuses attributes of other names: a misspelt one would silently be ignored.
func (g *given) only(what string, names []string) {
	for _, name := range slices.Sorted(maps.Keys(g.attributes)) {
		if !slices.Contains(names, name) {
			g.wrong = append(g.wrong, fmt.Errorf("%s has no attribute %q; it has %s", what, g.prefix+name, strings.Join(names, ", ")))
		}
	}
}

// value is nil where the attribute is left out or null.
func (g *given) value(name string) attr.Value {
	value := concrete(g.attributes[name])
	if value == nil || value.IsNull() {
		return nil
	}
	return value
}

func (g *given) refuse(name, want string, have attr.Value) {
	g.wrong = append(g.wrong, fmt.Errorf("%s has to be %s, not %s", g.prefix+name, want, kindOf(have)))
}

func (g *given) text(name string) string {
	value := g.value(name)
	if value == nil {
		return ""
	}
	text, ok := value.(types.String)
	if !ok {
		g.refuse(name, "a string", value)
	}
	return text.ValueString()
}

// truth accepts the words true and false too, because a map of strings holds them as such.
func (g *given) truth(name string) bool {
	switch value := g.value(name).(type) {
	case nil:
		return false
	case types.Bool:
		return value.ValueBool()
	case types.String:
		if text := value.ValueString(); text == "true" || text == "false" {
			return text == "true"
		}
		g.refuse(name, "true or false", value)
	default:
		g.refuse(name, "true or false", value)
	}
	return false
}

func (g *given) texts(name string) []string {
	value := g.value(name)
	if value == nil {
		return nil
	}
	var elements []attr.Value
	switch list := value.(type) {
	case types.Tuple:
		elements = list.Elements()
	case types.List:
		elements = list.Elements()
	default:
		g.refuse(name, "a list of strings", value)
	}
	texts := make([]string, len(elements))
	for i, element := range elements {
		text, ok := concrete(element).(types.String)
		if !ok || text.IsNull() {
			g.refuse(fmt.Sprintf("%s[%d]", name, i), "a string", element)
		}
		texts[i] = text.ValueString()
	}
	return texts
}

func (g *given) exec() *cluster.Exec {
	value := g.value("exec")
	if value == nil {
		return nil
	}
	all, ok := attributesOf(value)
	if !ok {
		g.refuse("exec", "an object { api_version, command, args, env }", value)
		return nil
	}
	plugin := given{prefix: "exec.", attributes: all}
	plugin.only("exec", execAttributes)
	exec := &cluster.Exec{APIVersion: plugin.text("api_version"), Command: plugin.text("command"), Args: plugin.texts("args"), Env: map[string]string{}}
	if value := plugin.value("env"); value != nil {
		variables, ok := attributesOf(value)
		if !ok {
			plugin.refuse("env", "a map of strings", value)
		}
		env := given{prefix: "exec.env.", attributes: variables}
		for name := range variables {
			exec.Env[name] = env.text(name)
		}
		plugin.wrong = append(plugin.wrong, env.wrong...)
	}
	g.wrong = append(g.wrong, plugin.wrong...)
	return exec
}

// attributesOf are the attributes of an object, or the elements of a map.
func attributesOf(value attr.Value) (map[string]attr.Value, bool) {
	switch value := concrete(value).(type) {
	case types.Object:
		return value.Attributes(), true
	case types.Map:
		return value.Elements(), true
	}
	return nil, false
}

func concrete(value attr.Value) attr.Value {
	if dynamic, ok := value.(types.Dynamic); ok {
		return dynamic.UnderlyingValue()
	}
	return value
}

func kindOf(value attr.Value) string {
	switch value := concrete(value).(type) {
	case nil:
		return "null"
	case types.String:
		if value.IsNull() {
			return "null"
		}
		return "a string"
	case types.Bool:
		return "a bool"
	case types.Number, types.Int64, types.Float64:
		return "a number"
	case types.Tuple, types.List, types.Set:
		return "a list"
	}
	return "an object"
}
