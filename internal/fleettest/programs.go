package fleettest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Root is the directory of the checkout: the first one, going up from the working directory, that holds
// tools/build.sh. Tests run in their package's directory and `go run` in the caller's, so both find it.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "tools", "build.sh")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("fleettest: run inside a checkout: no tools/build.sh in or above the working directory")
		}
		dir = parent
	}
}

// built remembers what this process has already had checked, so that the hundredth fleet costs nothing.
var built struct {
	sync.Mutex
	programs map[string]string
}

// Build makes sure that the named programs (as tools/build.sh knows them) are in .bin and up to date, and returns
// the path of each.
func Build(ctx context.Context, names ...string) (map[string]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	built.Lock()
	defer built.Unlock()
	if built.programs == nil {
		built.programs = map[string]string{}
	}
	var missing []string
	for _, name := range names {
		if built.programs[name] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		cmd := exec.CommandContext(ctx, filepath.Join(root, "tools", "build.sh"), missing...)
		var output bytes.Buffer
		cmd.Stderr = io.MultiWriter(os.Stderr, &output) // it takes minutes at times, so progress is shown
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("fleettest: tools/build.sh %s: %w\n%s", strings.Join(missing, " "), err, output.String())
		}
	}
	for _, name := range missing {
		built.programs[name] = filepath.Join(root, ".bin", name)
	}
	paths := make(map[string]string, len(names))
	for _, name := range names {
		paths[name] = built.programs[name]
	}
	return paths, nil
}

// apiServer is the name under which tools/build.sh knows the API server of this spec.
func (s ClusterSpec) apiServer() string {
	if s.Version == "" {
		return "kube-apiserver"
	}
	return "kube-apiserver@" + s.Version
}

func buildFor(ctx context.Context, specs []ClusterSpec) (map[string]string, error) {
	names := []string{"etcd"}
	for _, s := range specs {
		names = append(names, s.apiServer())
		if s.hasControllers() {
			names = append(names, "kube-controller-manager")
		}
		if !s.ControlPlaneOnly {
			names = append(names, "kube-scheduler", "kwok")
		}
		if slices.Contains(s.Engines, EngineKnative) {
			names = append(names, knativeProgram)
		}
		if slices.Contains(s.Engines, EngineArgoCD) {
			names = append(names, argoCDProgram, redisProgram)
		}
		for _, kind := range s.managerKinds() {
			names = append(names, kind.latest().name)
		}
	}
	return Build(ctx, names...)
}

// ModuleDir is the folder of a module in the module cache, in the version that a module of tools/ pins ("kwok" for
// tools/kwok). It is downloaded where it is not there. What is in it may not be written to.
func ModuleDir(ctx context.Context, tool, module string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = filepath.Join(root, "tools", tool)
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	// With -json the command tells its errors in its answer.
	answer, failed := cmd.Output()
	var found struct{ Dir, Error string }
	if err := json.Unmarshal(answer, &found); failed != nil || err != nil || found.Error != "" {
		return "", fmt.Errorf("fleettest: go mod download %s in tools/%s: %w\n%s%s", module, tool, errors.Join(failed, err), answer, stderr.Bytes())
	}
	return found.Dir, nil
}

// stages gives the paths of the kwok module's stages that make nodes and pods ready. They are read from the module
// that kwok was built from, so they always fit the binary.
var stages = sync.OnceValues(func() ([]string, error) {
	dir, err := ModuleDir(context.Background(), "kwok", "sigs.k8s.io/kwok")
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(dir, "kustomize", "stage")
	var paths []string
	for _, name := range []string{"node/fast", "node/heartbeat-with-lease", "pod/fast"} {
		found, err := filepath.Glob(filepath.Join(folder, filepath.FromSlash(name), "*.yaml"))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			if filepath.Base(path) != "kustomization.yaml" {
				paths = append(paths, path)
			}
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("find kwok's stages: none below %s", folder)
	}
	return paths, nil
})
