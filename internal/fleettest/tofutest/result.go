package tofutest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// Severity of a diagnostic, in the words of -json.
type Severity string

const (
	// Error fails the command.
	Error Severity = "error"
	// Warning leaves the exit code alone.
	Warning Severity = "warning"
)

// Diagnostic is one error or warning of the runner or the provider.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	Summary  string   `json:"summary"`
	Detail   string   `json:"detail"`
	// Address is that of the resource, where the runner names it.
	Address string `json:"address"`
	// Range and Snippet say where in the configuration an attribute's diagnostic points; nil for one without an attribute.
	Range   *Range   `json:"range"`
	Snippet *Snippet `json:"snippet"`
}

// Range is a place in the configuration.
type Range struct {
	Filename string `json:"filename"`
	Start    struct {
		Line, Column int
	} `json:"start"`
}

// Snippet is the configuration there.
type Snippet struct {
	Context string `json:"context"` // such as `resource "berth_instance" "this"`
	Code    string `json:"code"`
	Start   int    `json:"highlight_start_offset"`
	End     int    `json:"highlight_end_offset"`
}

// String is the diagnostic as a person reads it.
func (d Diagnostic) String() string {
	text := fmt.Sprintf("%s: %s", d.Severity, d.Summary)
	if d.Address != "" {
		text += " (" + d.Address + ")"
	}
	if d.Snippet != nil {
		text += "\n  at " + strings.TrimSpace(d.Snippet.Code)
	}
	if d.Detail != "" {
		text += "\n  " + strings.ReplaceAll(d.Detail, "\n", "\n  ")
	}
	return text
}

// Change is what a plan has for one resource.
type Change struct {
	Address string
	Type    string
	// Actions are create, read, update, delete, no-op, forget; a replacement is delete and create in their order.
	Actions []string
	// Reason is the runner's word for why, such as replace_because_cannot_update.
	Reason        string
	Before, After map[string]any
	AfterUnknown  map[string]any
	// Sensitive parts of After, true in place of the value.
	AfterSensitive map[string]any
	// ReplacePaths are the paths of the attributes that force a replacement, such as "name" or "sizes.0".
	ReplacePaths []string
	// ImportID is set where the change imports.
	ImportID string
}

// Is tells whether these are the change's actions: Is("delete", "create").
func (c Change) Is(actions ...string) bool {
	return strings.Join(c.Actions, ",") == strings.Join(actions, ",")
}

// Result is what a command did.
type Result struct {
	Command  string
	ExitCode int
	// Diagnostics come in the runner's order, without its remark that a development override is in use.
	Diagnostics []Diagnostic
	// Changes are those of a plan, except no-op; of an apply they have an address and actions only.
	Changes []Change
	// OutputChanges are the actions for each output that changes.
	OutputChanges map[string][]string
	// Drift are the changes that a refresh has found, as the runner reports them.
	Drift []Change
	// Log is what a person would read: the messages of all lines, and standard error.
	Log string
	// Raw is standard output as it was.
	Raw []byte
}

// run runs a command to its end.
func (w *Workspace) run(args ...string) *Result {
	w.t.Helper()
	running := w.start(args...)
	return running.Wait()
}

// overrideRemark is the runners' remark on dev_overrides, which is about how the tests run.
const overrideRemark = "Provider development overrides are in effect"

func newResult(args []string, stdout, stderr []byte, err error) (*Result, error) {
	r := &Result{Command: strings.Join(args, " "), Raw: stdout}
	if err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return nil, err
		}
		r.ExitCode = exit.ExitCode() // -1 where a signal ended it
	}
	switch {
	case args[0] == "validate":
		var report struct{ Diagnostics []Diagnostic }
		if err := json.Unmarshal(stdout, &report); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Command, err)
		}
		r.add(report.Diagnostics...)
		r.Log = string(stdout)
	case len(args) > 1 && args[1] == "-json" && (args[0] == "plan" || args[0] == "apply" || args[0] == "destroy"):
		r.readStream(stdout)
	default:
		r.Log = string(stdout)
	}
	r.Log += string(stderr)
	r.add(readText(string(stderr))...)
	return r, nil
}

func (r *Result) add(diagnostics ...Diagnostic) {
	for _, d := range diagnostics {
		if d.Summary != overrideRemark {
			r.Diagnostics = append(r.Diagnostics, d)
		}
	}
}

// readStream reads the lines that -json prints.
func (r *Result) readStream(stdout []byte) {
	var log strings.Builder
	scanner := bufio.NewScanner(bytes.NewReader(stdout))
	scanner.Buffer(nil, 64<<20) // one line may hold a whole diagnostic
	for scanner.Scan() {
		var line struct {
			Message    string      `json:"@message"`
			Type       string      `json:"type"`
			Diagnostic *Diagnostic `json:"diagnostic"`
			Change     *struct {
				Action   string `json:"action"`
				Resource struct {
					Addr string `json:"addr"`
					Type string `json:"resource_type"`
				} `json:"resource"`
			} `json:"change"`
		}
		if json.Unmarshal(scanner.Bytes(), &line) != nil {
			log.WriteString(scanner.Text() + "\n") // a panic, say
			continue
		}
		switch {
		case line.Diagnostic != nil:
			r.add(*line.Diagnostic)
			log.WriteString(line.Diagnostic.String() + "\n")
		case line.Type == "planned_change" && line.Change != nil:
			actions := []string{line.Change.Action}
			if line.Change.Action == "replace" {
				actions = []string{"delete", "create"}
			}
			r.Changes = append(r.Changes, Change{Address: line.Change.Resource.Addr, Type: line.Change.Resource.Type, Actions: actions})
			fallthrough
		default:
			log.WriteString(line.Message + "\n")
		}
	}
	r.Log = log.String()
}

var textStart = regexp.MustCompile(`^(Error|Warning): (.*)$`)

// readText reads the diagnostics of commands that have no -json, printed with -no-color: a summary line, the place,
// and the detail, which the runner has wrapped.
func readText(text string) []Diagnostic {
	var found []Diagnostic
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(strings.TrimPrefix(strings.TrimPrefix(line, "│ "), "│"), " ")
		if strings.HasPrefix(line, "╷") || strings.HasPrefix(line, "╵") {
			continue
		}
		if start := textStart.FindStringSubmatch(line); start != nil {
			found = append(found, Diagnostic{Severity: Severity(strings.ToLower(start[1])), Summary: start[2]})
			continue
		}
		if len(found) == 0 {
			continue
		}
		d := &found[len(found)-1]
		switch {
		case line == "":
			if d.Detail != "" && !strings.HasSuffix(d.Detail, "\n") {
				d.Detail += "\n"
			}
		case d.Detail == "" || strings.HasSuffix(d.Detail, "\n") || strings.HasPrefix(line, " "):
			d.Detail += line
		default:
			d.Detail += " " + line
		}
	}
	for i := range found {
		found[i].Detail = strings.TrimSpace(found[i].Detail)
	}
	return found
}

// readPlan reads what `show -json` says of a saved plan.
func (r *Result) readPlan(raw []byte) error {
	type change struct {
		Actions        []string             `json:"actions"`
		Before         json.RawMessage      `json:"before"`
		After          json.RawMessage      `json:"after"`
		AfterUnknown   json.RawMessage      `json:"after_unknown"`
		AfterSensitive json.RawMessage      `json:"after_sensitive"`
		ReplacePaths   [][]any              `json:"replace_paths"`
		Importing      *struct{ ID string } `json:"importing"`
	}
	type resource struct {
		Address, Type string
		Change        change
		Reason        string `json:"action_reason"`
	}
	var plan struct {
		Changes []resource        `json:"resource_changes"`
		Drift   []resource        `json:"resource_drift"`
		Outputs map[string]change `json:"output_changes"`
	}
	if err := json.Unmarshal(raw, &plan); err != nil {
		return fmt.Errorf("the plan: %w", err)
	}
	convert := func(in resource) Change {
		out := Change{
			Address: in.Address, Type: in.Type, Actions: in.Change.Actions, Reason: in.Reason,
			Before: object(in.Change.Before), After: object(in.Change.After),
			AfterUnknown: object(in.Change.AfterUnknown), AfterSensitive: object(in.Change.AfterSensitive),
		}
		for _, path := range in.Change.ReplacePaths {
			var steps []string
			for _, step := range path {
				steps = append(steps, fmt.Sprint(step))
			}
			out.ReplacePaths = append(out.ReplacePaths, strings.Join(steps, "."))
		}
		if in.Change.Importing != nil {
			out.ImportID = in.Change.Importing.ID
		}
		return out
	}
	r.Changes = nil
	for _, c := range plan.Changes {
		if change := convert(c); !change.Is("no-op") || change.ImportID != "" {
			r.Changes = append(r.Changes, change)
		}
	}
	for _, c := range plan.Drift {
		r.Drift = append(r.Drift, convert(c))
	}
	r.OutputChanges = map[string][]string{}
	for name, c := range plan.Outputs {
		if len(c.Actions) != 1 || c.Actions[0] != "no-op" {
			r.OutputChanges[name] = c.Actions
		}
	}
	return nil
}

// object decodes a JSON object; null, and the false and true that stand for a whole, give nil.
func object(raw json.RawMessage) map[string]any {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return nil
	}
	decoded, _ := value.(map[string]any)
	return decoded
}
