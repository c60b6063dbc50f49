package release

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// MergeValues merges YAML documents in their order, each of which has to be a map, and then sets secret values by their
// paths (in the notation of Helm's --set; the value is always a string). The error is a *cluster.Problem that names the
// document or the path, and no value.
func MergeValues(documents []string, secrets map[string]string) (map[string]any, error) {
	merged := map[string]any{}
	for i, document := range documents {
		values, err := ParseValues(document)
		if err != nil {
			return nil, &cluster.Problem{
				Attribute: fmt.Sprintf("values[%d]", i),
				Summary:   fmt.Sprintf("Document %d of `values` is no map of values", i+1),
				Detail:    fmt.Sprintf("It %s. A document of `values` is what one would put into a values.yaml; yamlencode() writes one.", err),
			}
		}
		merged = chartutil.MergeTables(values, merged)
	}
	for _, path := range slices.Sorted(maps.Keys(secrets)) {
		if err := setSecret(merged, path, secrets[path]); err != nil {
			return nil, &cluster.Problem{
				Attribute: "set_sensitive_wo",
				Summary:   fmt.Sprintf("%q is no path into the values", path),
				Detail: "A path names map keys with dots between them and list items by their index in brackets, such as auth.password or users[0].token; a dot in a key is written as \\. (backslash, dot). " +
					"What is on its way must be a map or a list where the path goes on.",
			}
		}
	}
	return merged, nil
}

// ParseValues reads one YAML document with a map at its top; an empty one is an empty map. The error completes a sentence
// about the document and quotes nothing of it.
func ParseValues(document string) (map[string]any, error) {
	var values any
	if err := yaml.Unmarshal([]byte(document), &values); err != nil {
		return nil, fmt.Errorf("is not YAML (%s)", place0(err))
	}
	switch values := values.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return values, nil
	}
	return nil, fmt.Errorf("has no map at its top")
}

// place0 is where a YAML parser stopped, without the text that it quotes.
func place0(err error) string {
	text := err.Error()
	if at := strings.Index(text, "line "); at >= 0 {
		text = text[at:]
	}
	if end := strings.IndexAny(text, "`\"'"); end >= 0 {
		text = strings.TrimRight(text[:end], " :")
	}
	return text
}

// setSecret sets a string by a path. A panic of the parser, which some paths cause, is an error like any other.
func setSecret(values map[string]any, path, value string) (err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("the path cannot be read")
		}
	}()
	if strings.ContainsAny(path, "=,{}") || strings.TrimSpace(path) == "" {
		return fmt.Errorf("the path cannot be read")
	}
	escaped := strings.NewReplacer(`\`, `\\`, `,`, `\,`, `{`, `\{`, `}`, `\}`, `[`, `\[`, `]`, `\]`).Replace(value)
	if err := strvals.ParseIntoString(path+"="+escaped, values); err != nil {
		return err
	}
	if got, found := at(values, path); !found || got != value {
		return fmt.Errorf("the value did not arrive")
	}
	return nil
}

// at is the text at a path of values.
func at(values map[string]any, path string) (string, bool) {
	var here any = values
	for _, step := range steps(path) {
		switch inside := here.(type) {
		case map[string]any:
			next, found := inside[step.key]
			if step.index >= 0 || !found {
				return "", false
			}
			here = next
		case []any:
			if step.index < 0 || step.index >= len(inside) {
				return "", false
			}
			here = inside[step.index]
		default:
			return "", false
		}
	}
	text, ok := here.(string)
	return text, ok
}

// without is a copy of values in which what is at the paths is taken out.
func without(values map[string]any, paths []string) map[string]any {
	copied := deepCopy(values)
	for _, path := range paths {
		all := steps(path)
		var here any = copied
		for i, step := range all {
			last := i == len(all)-1
			if inside, ok := here.(map[string]any); ok && step.index < 0 {
				if last {
					delete(inside, step.key)
				}
				here = inside[step.key]
				continue
			}
			if inside, ok := here.([]any); ok && step.index >= 0 && step.index < len(inside) {
				if last {
					inside[step.index] = nil
				}
				here = inside[step.index]
				continue
			}
			break
		}
	}
	return copied
}

func deepCopy(values map[string]any) map[string]any {
	var copied map[string]any
	data, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(data, &copied)
	}
	if err != nil || copied == nil {
		return map[string]any{}
	}
	return copied
}

// step is one step of a path: a key, or an index.
type step struct {
	key   string
	index int // -1 for a key
}

// steps are the steps of a path in the notation of Helm's --set.
func steps(path string) []step {
	var all []step
	var key strings.Builder
	end := func() {
		if key.Len() > 0 {
			all = append(all, step{key: key.String(), index: -1})
			key.Reset()
		}
	}
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '\\':
			if i+1 < len(path) {
				i++
				key.WriteByte(path[i])
			}
		case '.':
			end()
		case '[':
			end()
			index := -2
			if closing := strings.IndexByte(path[i:], ']'); closing > 0 {
				if _, err := fmt.Sscanf(path[i+1:i+closing], "%d", &index); err != nil || index < 0 {
					index = -2
				}
				i += closing
			}
			all = append(all, step{index: index})
		default:
			key.WriteByte(path[i])
		}
	}
	end()
	return all
}

// sensitive is what stands in a message in the place of a secret.
const sensitive = "(sensitive value)"

// shortestHidden is the length from which a secret is looked for in texts: a shorter one would blank out half of them,
// and is no secret.
const shortestHidden = 4

// hider takes secret values out of texts.
type hider struct{ values []string }

// hide makes a hider of the values at paths.
func hide(values map[string]any, paths []string) hider {
	var h hider
	for _, path := range paths {
		if text, found := at(values, path); found && len(text) >= shortestHidden {
			h.values = append(h.values, text, base64.StdEncoding.EncodeToString([]byte(text)))
			for line := range strings.Lines(text) {
				// Of a text of many lines, such as a key, a chart indents each.
				if line = strings.TrimSpace(line); len(line) >= 2*shortestHidden {
					h.values = append(h.values, line)
				}
			}
			if encoded, err := json.Marshal(text); err == nil {
				h.values = append(h.values, strings.Trim(string(encoded), `"`))
			}
		}
	}
	return h.and(hider{})
}

// and hides what either hides, the longest first: a secret may be part of another one.
func (h hider) and(other hider) hider {
	values := append(slices.Clone(h.values), other.values...)
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	return hider{values: values}
}

func (h hider) text(text string) string {
	for _, value := range h.values {
		text = strings.ReplaceAll(text, value, sensitive)
	}
	// A value that was cut for a message may end in the middle of a secret.
	for _, end := range []string{"…`", "…"} {
		body, cut := strings.CutSuffix(text, end)
		if !cut {
			continue
		}
		for _, value := range h.values {
			for n := min(len(value), len(body)); n >= shortestHidden; n-- {
				if strings.HasSuffix(body, value[:n]) {
					return body[:len(body)-n] + sensitive + end
				}
			}
		}
		return text
	}
	return text
}

func (h hider) holds(text string) bool { return h.text(text) != text }
