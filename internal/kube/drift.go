package kube

import (
	"context"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// Drift returns what of the objects that a resource applied is no longer so: the object and the field to
// "found → wanted", and "missing → present" for an object that is gone. It compares with the snapshot; only an object
// that seems to differ is put to the server as a dry-run apply, which settles defaults and quantities.
//
// marked says that berth has written its marks on the objects: then a mark that was taken off is drift too. After an
// import it has not, and what another tool installed is no drift for that.
func Drift(ctx context.Context, c *cluster.Cluster, owner Owner, objects []Object, marked bool) (map[string]string, error) {
	drift := map[string]string{}
	for _, object := range objects {
		differences, missing, err := driftOf(ctx, c, owner, object, marked)
		if err != nil {
			return nil, err
		}
		if missing {
			drift[object.Describe()] = "missing → present"
		}
		for _, difference := range differences {
			drift[object.Describe()+" "+difference.Path] = difference.change()
		}
	}
	return drift, nil
}

func driftOf(ctx context.Context, c *cluster.Cluster, owner Owner, object Object, marked bool) (differences []Difference, missing bool, err error) {
	live, err := c.Live(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName())
	if err != nil {
		return nil, false, err
	}
	if live == nil || live.GetDeletionTimestamp() != nil {
		return nil, true, nil
	}
	wanted := object.Desired.DeepCopy()
	if marked {
		mark(wanted, owner, Created(live))
		carry(wanted, live, false)
	}
	if differences = compareAs(wanted, wanted, object.complete(live)); len(differences) == 0 {
		return nil, false, nil
	}
	wanted.SetUID(live.GetUID())
	outcome, err := c.Apply(ctx, object.Kind, wanted, cluster.ApplyOptions{FieldManager: FieldManager, Force: true, DryRun: true})
	if err != nil {
		if cluster.Unreachable(err) {
			return nil, false, err
		}
		// The server refuses what we want (a field that cannot change, a missing permission to write): what was seen
		// is shown as it is.
		return differences, false, nil
	}
	return compareAs(wanted, object.complete(outcome), object.complete(live)), false, nil
}
