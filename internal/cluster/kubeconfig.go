package cluster

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// origin is where a connection was described, for messages and for relative paths.
type origin struct {
	label     string // who needs it: `clusters["eu-1"]`, or what a function was given
	attribute string // the attribute that led here
	file      string // absolute; empty for content and for host
	host      bool   // described by attributes, not by a kubeconfig
	offline   bool   // only rewritten, not used: neither the clock nor the PATH is looked at
}

func (o origin) String() string {
	if o.file != "" {
		return "the kubeconfig file " + quoted(o.file)
	}
	return "the kubeconfig"
}

func (o origin) fail(summary, format string, args ...any) *Problem {
	return o.failAt(o.attribute, summary, format, args...)
}

func (o origin) failAt(attribute, summary, format string, args ...any) *Problem {
	return &Problem{Attribute: attribute, Summary: o.label + ": " + summary, Detail: fmt.Sprintf(format, args...)}
}

// connection is one context of a kubeconfig with what it leads to, or the same described by attributes. Files are read
// into it, but for a token file, which is meant to change while it is in use.
type connection struct {
	context, clusterName, userName string
	namespace                      string
	cluster                        clientcmdv1.Cluster
	user                           clientcmdv1.AuthInfo
	bothCredentials                bool // as in Entry
}

// readKubeconfig reads a kubeconfig file. The path may start with ~ and is otherwise relative to the working folder.
func readKubeconfig(label, path string) (origin, []byte, error) {
	from := origin{label: label, attribute: "kubeconfig_path"}
	if strings.ContainsAny(path, "\n\x00") || strings.Contains(path, "apiVersion:") {
		return from, nil, from.fail("kubeconfig_path holds a kubeconfig, not a path",
			"The value looks like the content of a kubeconfig. Set kubeconfig to it instead of kubeconfig_path.")
	}
	absolute, err := expandPath(path)
	if err != nil {
		return from, nil, from.fail("the kubeconfig path cannot be resolved",
			"%s cannot be made absolute: %s. Set kubeconfig_path to an absolute path.", quoted(path), err)
	}
	from.file = absolute
	data, err := os.ReadFile(absolute)
	if err != nil {
		reason, remedy := fileTrouble(absolute, err)
		if reason == "does not exist" && strings.ContainsRune(path, os.PathListSeparator) {
			remedy = "Name one file: unlike KUBECONFIG, kubeconfig_path is not a list"
		}
		return from, nil, from.fail("the kubeconfig file "+reason, "%s %s. %s, or set kubeconfig to the content.", quoted(absolute), reason, remedy)
	}
	return from, data, nil
}

// expandPath makes a path absolute, a leading ~ being the home folder.
func expandPath(path string) (string, error) {
	if path == "~" || strings.HasPrefix(path, "~/") || strings.HasPrefix(path, "~"+string(filepath.Separator)) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", errors.New("the home folder is not known (HOME is not set)")
		}
		path = filepath.Join(home, path[1:])
	}
	return filepath.Abs(path)
}

// fileTrouble says why a file could not be read, and the beginning of what to do about it.
func fileTrouble(path string, err error) (reason, remedy string) {
	info, statErr := os.Stat(path)
	switch {
	case statErr == nil && info.IsDir():
		return "is a directory", "Name the file in it"
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist", "Create it, correct the path"
	case errors.Is(err, fs.ErrPermission):
		return "cannot be read: permission denied", "Let the user that runs the apply read it"
	}
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return "cannot be read: " + err.Error(), "Correct the path"
}

// document is a kubeconfig before it is taken literally: only the three entries that are used are parsed strictly, so
// that what other tools wrote into the rest of a shared file does not concern us.
type document struct {
	APIVersion     string `json:"apiVersion"`
	Kind           string `json:"kind"`
	CurrentContext string `json:"current-context"`
	Clusters       []struct {
		Name string          `json:"name"`
		Body json.RawMessage `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string          `json:"name"`
		Body json.RawMessage `json:"user"`
	} `json:"users"`
	Contexts []struct {
		Name string          `json:"name"`
		Body json.RawMessage `json:"context"`
	} `json:"contexts"`
}

// parse reads a kubeconfig down to the one context, which must be named for a file and may be the current-context for
// content (X1).
func (o origin) parse(content []byte, contextName string) (*connection, error) {
	doc, err := o.parseDocument(content)
	if err != nil {
		return nil, err
	}
	contexts, clusters, users := map[string][]json.RawMessage{}, map[string][]json.RawMessage{}, map[string][]json.RawMessage{}
	for _, item := range doc.Contexts {
		contexts[item.Name] = append(contexts[item.Name], item.Body)
	}
	for _, item := range doc.Clusters {
		clusters[item.Name] = append(clusters[item.Name], item.Body)
	}
	for _, item := range doc.Users {
		users[item.Name] = append(users[item.Name], item.Body)
	}

	if contextName == "" {
		if contextName = doc.CurrentContext; contextName == "" {
			return nil, o.failAt("context", "the kubeconfig has no current-context",
				"Nothing says which context of the kubeconfig is meant. %s. Set context to one of them, or set current-context in the kubeconfig.", known("contexts", "", contexts))
		}
	}
	found := &connection{context: contextName}
	if len(contexts[contextName]) == 0 {
		return nil, o.failAt("context", "no such context",
			"There is no context %s in %s. %s. Set context to one of them.", quoted(contextName), o, known("contexts", contextName, contexts))
	}
	var context clientcmdv1.Context
	if err := o.strict("context", contextName, contexts[contextName], &context); err != nil {
		return nil, err
	}
	found.clusterName, found.userName, found.namespace = context.Cluster, context.AuthInfo, context.Namespace
	for _, reference := range []struct {
		kind, name string
		bodies     map[string][]json.RawMessage
		into       any
	}{
		{"cluster", context.Cluster, clusters, &found.cluster},
		{"user", context.AuthInfo, users, &found.user},
	} {
		if reference.name == "" {
			return nil, o.fail("the context names no "+reference.kind,
				"Context %s in %s has no %s. %s. Add %s to the context.", quoted(contextName), o, reference.kind, known(reference.kind+"s", "", reference.bodies), reference.kind)
		}
		if len(reference.bodies[reference.name]) == 0 {
			return nil, o.fail("the context names a "+reference.kind+" that is missing",
				"Context %s in %s names %s %s, which is not there. %s. Correct the context, or add the %s.",
				quoted(contextName), o, reference.kind, quoted(reference.name), known(reference.kind+"s", reference.name, reference.bodies), reference.kind)
		}
		if err := o.strict(reference.kind, reference.name, reference.bodies[reference.name], reference.into); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// known is a sentence with the names that exist, what was probably meant first.
func known(what, wanted string, names map[string][]json.RawMessage) string {
	if len(names) == 0 {
		return "It has no " + what
	}
	return "Its " + what + ": " + quoteAll(nearest(wanted, sortedKeys(names)))
}

func (o origin) parseDocument(content []byte) (*document, error) {
	text := strings.TrimSpace(string(content))
	if text == "" {
		if o.file != "" {
			return nil, o.fail("the kubeconfig file is empty", "There is nothing in %s. Write the kubeconfig again, or correct the path.", quoted(o.file))
		}
		return nil, o.fail("the kubeconfig is empty", "There is nothing in it. Give the content of a kubeconfig.")
	}
	converted, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, o.fail("the kubeconfig is not YAML", "YAML cannot be read from %s: %s. Correct it there.", o, yamlTrouble(err))
	}
	if !strings.HasPrefix(string(converted), "{") {
		return nil, o.notAMapping(text)
	}
	var doc document
	if err := json.Unmarshal(converted, &doc); err != nil {
		return nil, o.fail("the kubeconfig is malformed", "In %s %s. Correct it, or write the kubeconfig again.", o, jsonTrouble(err))
	}
	// kubectl accepts a kubeconfig that says neither, so only another statement is refused.
	if doc.Kind != "" && doc.Kind != "Config" || doc.APIVersion != "" && doc.APIVersion != "v1" {
		return nil, o.fail("this is not a kubeconfig",
			"A kubeconfig has apiVersion v1 and kind Config, but %s has apiVersion %s and kind %s. Give a kubeconfig.", o, quoted(doc.APIVersion), quoted(doc.Kind))
	}
	if len(doc.Clusters)+len(doc.Contexts)+len(doc.Users) == 0 {
		return nil, o.fail("this is not a kubeconfig", "There are no clusters, users and contexts in %s. Give a kubeconfig.", o)
	}
	return &doc, nil
}

// notAMapping explains content that is one bare value: what people give by mistake is a path, or base64.
func (o origin) notAMapping(text string) *Problem {
	if decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err == nil && strings.Contains(string(decoded), ":") {
		return o.fail("the kubeconfig is in base64", "What %s holds is base64, not YAML. Decode it first: base64decode(...).", strings.TrimPrefix(o.String(), "the kubeconfig "))
	}
	if o.file == "" && !strings.Contains(text, "\n") && strings.ContainsAny(text, "/\\~") {
		return o.fail("the kubeconfig is a path, not content", "The value is one line that looks like the path of a file. Set kubeconfig_path with context instead, or read the file: file(...).")
	}
	return o.fail("this is not a kubeconfig", "A kubeconfig is a YAML mapping with clusters, users and contexts; %s is not a mapping. Give a kubeconfig.", o)
}

// strict decodes one entry and refuses fields that a kubeconfig does not have: a misspelt one would silently be
// ignored, and with it the CA or the credential that it was to set.
func (o origin) strict(kind, name string, bodies []json.RawMessage, into any) error {
	if len(bodies) > 1 {
		return o.fail("two entries with one name", "There are %d %ss named %s in %s, and nothing says which one is meant. Remove or rename all but one.", len(bodies), kind, quoted(name), o)
	}
	body := bodies[0]
	if len(body) == 0 || string(body) == "null" {
		body = json.RawMessage("{}")
	}
	warnings, err := kjson.UnmarshalStrict(body, into)
	if err == nil && len(warnings) > 0 {
		err = warnings[0]
	}
	if err != nil {
		return o.fail("the "+kind+" of the kubeconfig is malformed", "In %s %s of %s %s. Correct it there.", kind, quoted(name), o, jsonTrouble(err))
	}
	return nil
}

var (
	quotedPart = regexp.MustCompile("'[^']*'|`[^`]*`|\"[^\"]*\"")
	badField   = regexp.MustCompile(`struct field (?:\w+\.)?([\w.-]+) of type`)
	oddField   = regexp.MustCompile(`(unknown|duplicate) field "([\w.\[\]-]+)"`)
)

// yamlTrouble is the message of a YAML parser without what it quotes of the text, which may be a credential (X9).
func yamlTrouble(err error) string {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	return quotedPart.ReplaceAllString(strings.TrimPrefix(strings.Join(strings.Fields(text), " "), "yaml: "), "…")
}

// jsonTrouble says what a decoder of one entry stumbled over: field names only, never values (X9).
func jsonTrouble(err error) string {
	text := err.Error()
	if match := oddField.FindStringSubmatch(text); match != nil {
		if match[1] == "unknown" {
			return "there is a field " + quoted(match[2]) + ", which a kubeconfig does not have"
		}
		return "the field " + quoted(match[2]) + " stands twice"
	}
	var corrupt base64.CorruptInputError
	if errors.As(err, &corrupt) || strings.Contains(text, "illegal base64 data") {
		return "a field whose name ends with -data is not base64"
	}
	if match := badField.FindStringSubmatch(text); match != nil {
		return "the field " + quoted(match[1]) + " has a value of the wrong type"
	}
	return "a field has a value of the wrong type"
}
