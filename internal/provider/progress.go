package provider

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// followProgress returns what is called with each step of long work: a log line at level INFO and, when there is a
// file, a JSON line in it. The file is appended to and stays open as long as the provider process.
func followProgress(file string) (func(context.Context, cluster.Step), error) {
	var (
		mutex  sync.Mutex
		output *os.File
	)
	if file != "" {
		var err error
		if output, err = os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, step cluster.Step) {
		fields := map[string]any{"cluster": step.Cluster, "object": step.Object}
		if step.Reason != "" {
			fields["reason"] = step.Reason
		}
		tflog.Info(ctx, step.Action, fields)
		if output == nil {
			return
		}
		line, err := json.Marshal(struct {
			Time time.Time `json:"time"`
			cluster.Step
		}{time.Now().UTC(), step})
		if err != nil {
			return
		}
		mutex.Lock()
		defer mutex.Unlock()
		if _, err := output.Write(append(line, '\n')); err != nil {
			tflog.Warn(ctx, "the progress file cannot be written", map[string]any{"error": err.Error()})
		}
	}, nil
}
