package tofutest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// TestMain is the provider as well as the tests: the runner starts this binary as the provider.
func TestMain(m *testing.M) {
	if os.Getenv("TOFUTEST_NOTES") == "" {
		os.Exit(m.Run())
	}
	err := providerserver.Serve(context.Background(), func() provider.Provider { return notes{} }, providerserver.ServeOpts{Address: "registry.opentofu.org/berthdev/berth"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// notes is a provider with one resource, whose objects are files in the directory TOFUTEST_NOTES.
type notes struct{}

func (notes) Metadata(_ context.Context, _ provider.MetadataRequest, r *provider.MetadataResponse) {
	r.TypeName = "berth"
}
func (notes) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}
func (notes) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
}
func (notes) DataSources(context.Context) []func() datasource.DataSource { return nil }
func (notes) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return note{} }}
}

type note struct{}

type noteModel struct {
	Name types.String `tfsdk:"name"`
	Text types.String `tfsdk:"text"`
}

func (n noteModel) file() string {
	return filepath.Join(os.Getenv("TOFUTEST_NOTES"), n.Name.ValueString())
}

func (note) Metadata(_ context.Context, _ resource.MetadataRequest, r *resource.MetadataResponse) {
	r.TypeName = "berth_note"
}

func (note) Schema(_ context.Context, _ resource.SchemaRequest, r *resource.SchemaResponse) {
	r.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"name": schema.StringAttribute{Required: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}},
		"text": schema.StringAttribute{Required: true},
	}}
}

func (note) Create(ctx context.Context, q resource.CreateRequest, r *resource.CreateResponse) {
	var n noteModel
	r.Diagnostics.Append(q.Plan.Get(ctx, &n)...)
	if err := os.WriteFile(n.file(), []byte(n.Text.ValueString()), 0o600); err != nil {
		r.Diagnostics.AddError("Note not written", err.Error())
		return
	}
	switch n.Text.ValueString() {
	case "refuse":
		r.Diagnostics.AddAttributeError(path.Root("text"), `Note "`+n.Name.ValueString()+`" refused`, "The text is \"refuse\", which is a word that takes so much room in this sentence that a runner wraps it. Choose another text.")
		return
	case "warn":
		r.Diagnostics.AddWarning("A warning", "About the note.")
	case "wait":
		<-ctx.Done()
		r.Diagnostics.AddError("Interrupted", "The note was waiting.")
		return
	}
	r.Diagnostics.Append(r.State.Set(ctx, n)...)
}

func (note) Read(ctx context.Context, q resource.ReadRequest, r *resource.ReadResponse) {
	var n noteModel
	r.Diagnostics.Append(q.State.Get(ctx, &n)...)
	text, err := os.ReadFile(n.file())
	if os.IsNotExist(err) {
		r.State.RemoveResource(ctx)
		return
	}
	n.Text = types.StringValue(string(text))
	r.Diagnostics.Append(r.State.Set(ctx, n)...)
}

func (note) Update(ctx context.Context, q resource.UpdateRequest, r *resource.UpdateResponse) {
	var n noteModel
	r.Diagnostics.Append(q.Plan.Get(ctx, &n)...)
	if err := os.WriteFile(n.file(), []byte(n.Text.ValueString()), 0o600); err != nil {
		r.Diagnostics.AddError("Note not written", err.Error())
	}
	r.Diagnostics.Append(r.State.Set(ctx, n)...)
}

func (note) Delete(ctx context.Context, q resource.DeleteRequest, r *resource.DeleteResponse) {
	var n noteModel
	r.Diagnostics.Append(q.State.Get(ctx, &n)...)
	if err := os.Remove(n.file()); err != nil && !os.IsNotExist(err) {
		r.Diagnostics.AddError("Note not removed", err.Error())
	}
}

func (note) ImportState(ctx context.Context, q resource.ImportStateRequest, r *resource.ImportStateResponse) {
	if strings.Contains(q.ID, " ") {
		r.Diagnostics.AddError("Import ID not understood", fmt.Sprintf("Got %q, which has a blank in it, and a long remark after that so that the text has to be wrapped.\n\nWant the note's name.", q.ID))
		return
	}
	resource.ImportStatePassthroughID(ctx, path.Root("name"), q, r)
}

// workspace gives a workspace whose provider is notes, and the notes' directory.
func workspace(t *testing.T, options tofutest.Options) (*tofutest.Workspace, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	options.ProviderBinary = self
	options.Env = map[string]string{"TOFUTEST_NOTES": dir}
	return tofutest.New(t, options), dir
}

func config(name, text string) string {
	return fmt.Sprintf(`
terraform {
  required_providers {
    berth = { source = "berthdev/berth" }
  }
}
resource "berth_note" "this" {
  name = %q
  text = %q
}
output "text" {
  value = berth_note.this.text
}
`, name, text)
}

func TestLifecycle(t *testing.T) {
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		w, dir := workspace(t, tofutest.Options{Runner: runner, Trace: true})
		w.Write("main.tf", config("a", "one"))
		if v := w.Validate(); v.ExitCode != 0 || len(v.Diagnostics) > 0 {
			t.Fatalf("validate: %s", v.Log)
		}
		plan := w.MustPlan()
		if c := plan.Change(t, "berth_note.this"); plan.ExitCode != 2 || !c.Is("create") || c.After["text"] != "one" || plan.OutputChanges["text"] == nil {
			t.Fatalf("plan:\n%s", plan.Describe())
		}
		apply := w.MustApply()
		if c := apply.Change(t, "berth_note.this"); !c.Is("create") {
			t.Errorf("apply:\n%s", apply.Describe())
		}
		apply.NoWarnings(t) // the remark on development overrides is left out
		w.PlanIsEmpty()
		if got := w.Output("text"); got != "one" {
			t.Errorf("output %v, want one", got)
		}
		if got := w.Resource("berth_note.this")["name"]; got != "a" {
			t.Errorf("name %v, want a", got)
		}
		if !strings.Contains(w.TraceLog(), "[TRACE]") {
			t.Error("no trace log")
		}

		// What changes outside shows as drift, and its repair as a change.
		if err := os.WriteFile(filepath.Join(dir, "a"), []byte("other"), 0o600); err != nil {
			t.Fatal(err)
		}
		plan = w.MustPlan()
		if c := plan.Change(t, "berth_note.this"); !c.Is("update") || c.Before["text"] != "other" || c.After["text"] != "one" || len(plan.Drift) != 1 {
			t.Errorf("drift:\n%s", plan.Describe())
		}
		w.MustApply("-refresh-only")
		if got := w.Resource("berth_note.this")["text"]; got != "other" {
			t.Errorf("text %v after refresh, want other", got)
		}

		w.Write("main.tf", config("b", "one"))
		if c := w.MustPlan().Change(t, "berth_note.this"); !c.Is("delete", "create") || fmt.Sprint(c.ReplacePaths) != "[name]" {
			t.Errorf("replacement: %v %v", c.Actions, c.ReplacePaths)
		}
		w.MustApply()

		// A lost state is imported.
		w.Remove("terraform.tfstate")
		w.Import("berth_note.this", "a blank").Error(t, "^Import ID not understood$", `Got "a blank".* has to be wrapped\. Want the note's name`)
		w.MustImport("berth_note.this", "b")
		w.MustApply() // the output
		w.PlanIsEmpty()
		w.MustDestroy()
		if _, err := os.Stat(filepath.Join(dir, "b")); !os.IsNotExist(err) {
			t.Errorf("the note is still there: %v", err)
		}
	})
}

func TestDiagnostics(t *testing.T) {
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		w, _ := workspace(t, tofutest.Options{Runner: runner})
		w.Write("main.tf", config("a", "refuse"))
		d := w.Apply().Error(t, `^Note "a" refused$`, `a runner wraps it\. Choose another text\.$`)
		if d.Address != "berth_note.this" || d.Snippet == nil || !strings.Contains(d.Snippet.Code, "text = ") {
			t.Errorf("diagnostic %+v does not say where", d)
		}
		w.Write("main.tf", config("a", "warn"))
		w.MustApply().Warning(t, "^A warning$", "About the note")
	})
}

// The provider is found and killed in the middle of a create; the runner survives and says so.
func TestKillProvider(t *testing.T) {
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		w, dir := workspace(t, tofutest.Options{Runner: runner})
		w.Write("main.tf", config("a", "wait"))
		run := w.ApplyAsync()
		fleettest.Eventually(t, func(context.Context) error {
			_, err := os.Stat(filepath.Join(dir, "a"))
			return err
		})
		if n, err := run.KillProvider(); err != nil || n != 1 {
			t.Fatalf("killed %d: %v", n, err)
		}
		run.Wait().Error(t, "Plugin did not respond|Request cancelled|error reading from server")
		w.NoTaint()
		if left := w.Instances(); len(left) > 0 {
			t.Errorf("state holds %v", left)
		}
	})
}

// An interrupt reaches the provider through the runner.
func TestInterrupt(t *testing.T) {
	w, dir := workspace(t, tofutest.Options{})
	w.Write("main.tf", config("a", "wait"))
	run := w.ApplyAsync()
	fleettest.Eventually(t, func(context.Context) error {
		_, err := os.Stat(filepath.Join(dir, "a"))
		return err
	})
	if err := run.Interrupt(); err != nil {
		t.Fatal(err)
	}
	run.Wait().Error(t, "^Interrupted$")
}
