package fleettest

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// managerKind is what one controller manager has of its own.
type managerKind struct {
	engine Engine
	title  string
	// programs are there of its versions, from the oldest to the latest.
	programs []managerProgram
	// deployment and container are their names in the chart, and labels some of the pod's.
	deployment, container string
	labels                map[string]string
	// configure changes the configuration and the arguments for a process.
	configure func(ctx context.Context, m *Manager, program managerProgram, config map[string]any, args []string) ([]string, error)
	// tend does in place of the process what it can't do as one, again and again; nil where there is nothing.
	tend func(ctx context.Context, m *Manager) error
}

// managerProgram is a program in .bin.
type managerProgram struct{ version, name string }

// latest is the program of the latest version, whose name the files of the manager have.
func (k managerKind) latest() managerProgram { return k.programs[len(k.programs)-1] }

// choose takes the program of the version that an image's tag names, or else of the next later one. There is none, and
// the zero value is given, for a version that is later than all. The remark says so.
func (k managerKind) choose(image string) (program managerProgram, remark string) {
	latest := k.latest()
	asked, err := version.ParseGeneric(strings.TrimPrefix(imageTag(image), "release-"))
	if err != nil {
		return latest, fmt.Sprintf("the image %s names no version: its pod is played by %s %s", image, k.title, latest.version)
	}
	for _, each := range k.programs {
		has := version.MustParseGeneric(each.version)
		if has.EqualTo(asked) {
			return each, ""
		}
		if asked.LessThan(has) {
			return each, fmt.Sprintf("there is no program for the image %s: its pod is played by %s %s", image, k.title, each.version)
		}
	}
	return managerProgram{}, fmt.Sprintf("there is no program for the image %s, the latest being %s %s: its pod is ready and does nothing", image, k.title, latest.version)
}

// imageTag is the tag of an image's name, or "".
func imageTag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		return name[i+1:]
	}
	return ""
}
