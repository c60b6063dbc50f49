package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// A replacement that is created before the old resource is destroyed has the same mark: the destroy must not take what
// the replacement has just applied (promises 3 and 5).
func TestCreateBeforeDestroyKeepsTheObject(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		name := unique("cbd")
		b.use(class("this", name, "lifecycle {\ncreate_before_destroy = true\n}"))
		b.MustApply()
		before := b.mustClass(name)
		b.MustApply("-replace="+this).Warning(t, `^PriorityClass/`+name+` stays, with the resource that takes this one's place$`)
		same(t, "the class", b.mustClass(name).UID, before.UID)
		b.PlanIsEmpty()
		b.MustDestroy()
		same(t, "what is left", b.ownedClasses(b.owner), []string{})
	})
}

// A resource whose address changed without a moved block is destroyed and created: whichever is first, the object is
// there afterwards and the state is right.
func TestAddressChangedWithoutMoved(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	prefix := unique("moved")
	use := func(keys ...string) {
		b.use(fmt.Sprintf(`
resource "berth_priority_class" "this" {
  for_each = { for key in ["%s"] : key => substr(key, -1, 1) }
  name     = "%s-${each.value}"
  value    = 1000
}
`, strings.Join(keys, `", "`), prefix))
	}
	use("a-1", "a-2", "a-3")
	b.MustApply()
	use("b-1", "b-2", "b-3")
	b.Plan().Warning(t, `^PriorityClass/`+prefix+`-1 exists and carries this configuration's mark$`, "add a `moved` block instead")
	b.MustApply()
	for _, key := range []string{"1", "2", "3"} {
		b.mustClass(prefix + "-" + key)
	}
	b.PlanIsEmpty()
	b.MustDestroy()
}

// Two resources of one configuration cannot own one object.
func TestTwoResourcesOneObject(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("twice")
	b.use(class("this", name), class("second", name, "depends_on = [berth_priority_class.this]"))
	b.Apply().Error(t, `^Two resources want PriorityClass/`+name+`$`,
		`refusing: another resource of this configuration has just applied PriorityClass/`+name+` on \S+, and both would change and delete it\. Take one of them out, or give it another name\.`)
	b.NoTaint()
	b.use(class("this", name))
	b.PlanIsEmpty()
	b.MustDestroy()
}

// What several resources share can be adopted by none (X7): its other users would lose it.
func TestSharedIsNotAdopted(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("common")
	b.kubectl("create", "priorityclass", name, "--value=1000")
	b.kubectl("label", "priorityclass", name, "berth.dev/shared=true", "app.kubernetes.io/managed-by=berth", "users.berth.dev/0123456789abcdef=somebody")
	b.kubectl("annotate", "priorityclass", name, "berth.dev/created-by-berth=true")
	t.Cleanup(func() { b.kubectl("delete", "priorityclass", name) })
	b.use(class("this", name, "adopt = true"))
	b.Plan().Error(t, `^PriorityClass/`+name+` is shared$`, `is shared by resources of berth \(somebody\) and can be no single one's, not even with adopt\.`, `Nothing was applied\.`)
}

// A class whose owner's marks were taken off is foreign to another configuration: adopting it does not make it created,
// so its destroy leaves it (X6). The label that said who managed it is put back.
func TestAdoptedIsNeverDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("stripped")
	b.use(class("this", name))
	b.MustApply()
	b.kubectl("label", "priorityclass", name, "berth.dev/owner-", "app.kubernetes.io/managed-by=platform-team", "--overwrite")
	b.kubectl("annotate", "priorityclass", name, "berth.dev/owner-")
	other := b.beside(unique("team"), tofutest.Options{})
	other.use(class("this", name, "adopt = true"))
	other.MustPlan().Warning(t, `^PriorityClass/`+name+` exists and will be adopted$`, `metadata\.labels\.\[app\.kubernetes\.io/managed-by\]: platform-team → berth`)
	other.MustApply()
	other.MustDestroy()
	same(t, "who manages it", b.mustClass(name).Labels["app.kubernetes.io/managed-by"], "platform-team")
	b.kubectl("delete", "priorityclass", name)
}

// A destroy right after `owner` was changed, or after marks were taken off, still knows what the state holds.
func TestDestroyOfWhatTheStateHolds(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(b *bench, name string){
		"owner changed": func(b *bench, _ string) { b.block = strings.Replace(b.block, b.owner, b.owner+"-two", 1) },
		"marks taken off": func(b *bench, name string) {
			b.kubectl("label", "priorityclass", name, "berth.dev/owner-")
			b.kubectl("annotate", "priorityclass", name, "berth.dev/owner-")
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tofutest.Options{})
			name := unique("held")
			b.use(class("this", name))
			b.MustApply()
			change(b, name)
			b.use(class("this", name))
			b.MustDestroy()
			if left := b.class(name); left != nil {
				t.Errorf("the class is still there: %v", left.ObjectMeta)
			}
		})
	}
}

// A class that is being deleted is made anew once it is gone, and not updated until it goes.
func TestTerminatingIsMadeAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("going")
	b.use(class("this", name))
	b.MustApply()
	before := b.mustClass(name)
	b.kubectl("patch", "priorityclass", name, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	b.kubectl("delete", "priorityclass", name, "--wait=false")
	running := b.ApplyAsync()
	b.kubectl("patch", "priorityclass", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if result := running.Wait(); result.ExitCode != 0 {
		t.Fatal(result.Describe())
	}
	b.MustApply()
	if after := b.mustClass(name); after.UID == before.UID {
		t.Error("the class is the one that was being deleted")
	}
	b.PlanIsEmpty()
	b.MustDestroy()
}
