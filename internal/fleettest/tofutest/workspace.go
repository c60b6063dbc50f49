package tofutest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// Options say how a workspace's runner is run.
type Options struct {
	// Runner is Tofu where empty.
	Runner string
	// Env is added to the runner's environment, which otherwise holds PATH, an empty HOME of the workspace's own, and what
	// keeps the runner quiet and off the network; nothing that begins with TF_ or KUBE is inherited.
	Env map[string]string
	// Trace has the runner and the provider log at TRACE; see Workspace.TraceLog.
	Trace bool
	// ProviderBinary is used instead of Provider.
	ProviderBinary string
}

// Workspace is a directory with a configuration, its state, and a runner. Its commands run one at a time.
type Workspace struct {
	// Dir holds the configuration and the state.
	Dir string
	// Home is the HOME of the runner and the provider.
	Home string

	t        testing.TB
	runner   string
	provider string // path by which the runner starts the provider; no other process has it
	env      map[string]string
	guard    *fleettest.Guard

	mu sync.Mutex // one command at a time
}

// New gives an empty workspace, which goes with the test.
func New(t testing.TB, options Options) *Workspace {
	t.Helper()
	if options.Runner == "" {
		options.Runner = Tofu
	}
	runner, err := Executable(t.Context(), options.Runner)
	if err != nil {
		t.Fatal(err)
	}
	binary := options.ProviderBinary
	if binary == "" {
		if binary, err = Provider(); err != nil {
			t.Fatal(err)
		}
	}
	base, err := os.MkdirTemp("", "tofutest-") //nolint:usetesting // the guard removes it, also after a kill
	if err != nil {
		t.Fatal(err)
	}
	guard, err := fleettest.NewGuard(base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := guard.Close(false); err != nil {
			t.Error(err)
		}
	})

	w := &Workspace{Dir: filepath.Join(base, "work"), Home: filepath.Join(base, "home"), t: t, runner: runner, guard: guard}
	plugins := filepath.Join(base, "provider")
	for _, dir := range []string{w.Dir, w.Home, plugins} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// A link of the workspace's own tells its provider processes from those of other tests.
	w.provider = filepath.Join(plugins, providerName)
	if err := os.Symlink(binary, w.provider); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(base, "cli.tfrc")
	if err := os.WriteFile(config, fmt.Appendf(nil, `provider_installation {
  dev_overrides {
    "registry.opentofu.org/berthdev/berth"  = %[1]q
    "registry.terraform.io/berthdev/berth"  = %[1]q
  }
  direct {}
}
`, plugins), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env = map[string]string{
		"PATH":                  os.Getenv("PATH"),
		"HOME":                  w.Home,
		"TMPDIR":                base,
		"TF_CLI_CONFIG_FILE":    config,
		"TF_IN_AUTOMATION":      "1",
		"TF_INPUT":              "0",
		"CHECKPOINT_DISABLE":    "1",
		"NO_COLOR":              "1",
		"TF_CLI_ARGS":           "-no-color",
		"GOCOVERDIR":            os.Getenv("GOCOVERDIR"),
		"TF_PLUGIN_CACHE_DIR":   "",
		"TF_REATTACH_PROVIDERS": "",
	}
	if options.Trace {
		w.env["TF_LOG"], w.env["TF_LOG_PATH"] = "TRACE", w.traceLog()
	}
	maps.Copy(w.env, options.Env)
	return w
}

// SetEnv sets a variable of the runner's environment for the commands to come.
func (w *Workspace) SetEnv(name, value string) { w.env[name] = value }

func (w *Workspace) traceLog() string { return filepath.Join(filepath.Dir(w.Dir), "trace.log") }

// TraceLog gives what runner and provider have logged so far, where Options.Trace asked for it.
func (w *Workspace) TraceLog() string {
	w.t.Helper()
	content, err := os.ReadFile(w.traceLog())
	if err != nil {
		w.t.Fatal(err)
	}
	return string(content)
}

// Write writes a file of the configuration, in place of what it held. Folders in the name are created.
func (w *Workspace) Write(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// Remove removes a file of the workspace, such as "terraform.tfstate" for a lost state.
func (w *Workspace) Remove(name string) {
	w.t.Helper()
	if err := os.RemoveAll(filepath.Join(w.Dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

// Plan makes a plan. Its Changes, OutputChanges and Drift come from the saved plan; its ExitCode is 0 for an empty
// plan, 2 for one with changes, and 1 for an error.
func (w *Workspace) Plan(args ...string) *Result {
	w.t.Helper()
	const file = "tofutest.plan"
	w.Remove(file)
	result := w.run(append([]string{"plan", "-json", "-input=false", "-detailed-exitcode", "-out=" + file}, args...)...)
	if result.ExitCode == 1 {
		return result
	}
	shown := w.run("show", "-json", file)
	if shown.ExitCode != 0 {
		w.t.Fatalf("show the plan: %s", shown.Log)
	}
	if err := result.readPlan(shown.Raw); err != nil {
		w.t.Fatal(err)
	}
	return result
}

// Apply plans and applies at once. Its Changes have addresses and actions only.
func (w *Workspace) Apply(args ...string) *Result {
	w.t.Helper()
	return w.run(append([]string{"apply", "-json", "-input=false", "-auto-approve"}, args...)...)
}

// Destroy destroys everything.
func (w *Workspace) Destroy(args ...string) *Result {
	w.t.Helper()
	return w.run(append([]string{"destroy", "-json", "-input=false", "-auto-approve"}, args...)...)
}

// Refresh brings the state up to date, as `apply -refresh-only` does.
func (w *Workspace) Refresh(args ...string) *Result {
	w.t.Helper()
	return w.Apply(append([]string{"-refresh-only"}, args...)...)
}

// Import imports one object; its resource must be in the configuration.
func (w *Workspace) Import(address, id string, args ...string) *Result {
	w.t.Helper()
	return w.run(append(append([]string{"import", "-input=false"}, args...), address, id)...)
}

// Validate checks the configuration.
func (w *Workspace) Validate() *Result {
	w.t.Helper()
	return w.run("validate", "-json")
}

// Command runs any other command, such as "state", "mv", ….
func (w *Workspace) Command(args ...string) *Result {
	w.t.Helper()
	return w.run(args...)
}

// Show gives the state as `show -json` prints it, decoded.
func (w *Workspace) Show() map[string]any {
	w.t.Helper()
	var state map[string]any
	w.decode(&state, "show", "-json")
	return state
}

// Resource gives the attributes of one resource or data source of the root module, as the state has them. It fails
// the test where the state does not hold it.
func (w *Workspace) Resource(address string) map[string]any {
	w.t.Helper()
	var state struct {
		Values struct {
			RootModule struct {
				Resources []struct {
					Address string         `json:"address"`
					Values  map[string]any `json:"values"`
				} `json:"resources"`
			} `json:"root_module"`
		} `json:"values"`
	}
	w.decode(&state, "show", "-json")
	var known []string
	for _, r := range state.Values.RootModule.Resources {
		if r.Address == address {
			return r.Values
		}
		known = append(known, r.Address)
	}
	w.t.Fatalf("the state has no %s; it has %v", address, known)
	return nil
}

// StatePull gives the state's file as it is, secrets and taints included, or nil where there is none.
func (w *Workspace) StatePull() []byte {
	w.t.Helper()
	content, err := os.ReadFile(filepath.Join(w.Dir, "terraform.tfstate"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return content
}

// Instance is one instance of a resource in the state's file.
type Instance struct {
	Address    string
	Attributes map[string]any
	Tainted    bool
	// Private is the provider's private data, base64 as stored.
	Private string
}

// Instances gives the managed resources in the state's file, sorted by address.
func (w *Workspace) Instances() []Instance {
	w.t.Helper()
	content := w.StatePull()
	if len(content) == 0 {
		return nil
	}
	var state struct {
		Resources []struct {
			Module, Mode, Type, Name string
			Instances                []struct {
				IndexKey   any            `json:"index_key"`
				Status     string         `json:"status"`
				Attributes map[string]any `json:"attributes"`
				Private    string         `json:"private"`
			}
		}
	}
	if err := json.Unmarshal(content, &state); err != nil {
		w.t.Fatalf("the state's file: %v", err)
	}
	var instances []Instance
	for _, r := range state.Resources {
		if r.Mode != "managed" {
			continue
		}
		for _, i := range r.Instances {
			address := r.Type + "." + r.Name
			if r.Module != "" {
				address = r.Module + "." + address
			}
			switch key := i.IndexKey.(type) {
			case string:
				address += fmt.Sprintf("[%q]", key)
			case float64:
				address += fmt.Sprintf("[%d]", int(key))
			}
			instances = append(instances, Instance{Address: address, Attributes: i.Attributes, Tainted: i.Status == "tainted", Private: i.Private})
		}
	}
	slices.SortFunc(instances, func(a, b Instance) int { return strings.Compare(a.Address, b.Address) })
	return instances
}

// Output gives an output of the root module, decoded.
func (w *Workspace) Output(name string) any {
	w.t.Helper()
	var outputs map[string]struct{ Value any }
	w.decode(&outputs, "output", "-json")
	output, ok := outputs[name]
	if !ok {
		w.t.Fatalf("the state has no output %q; it has %v", name, slices.Sorted(maps.Keys(outputs)))
	}
	return output.Value
}

func (w *Workspace) decode(into any, args ...string) {
	w.t.Helper()
	result := w.run(args...)
	if result.ExitCode != 0 {
		w.t.Fatalf("%s: %s", strings.Join(args, " "), result.Log)
	}
	if err := json.Unmarshal(result.Raw, into); err != nil {
		w.t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
}

// command makes the runner's command, which is killed with everything below it when ctx ends or the test process dies.
func (w *Workspace) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := w.guard.Command(ctx, w.runner, args...)
	cmd.Dir = w.Dir
	for _, name := range slices.Sorted(maps.Keys(w.env)) {
		if value := w.env[name]; value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}
