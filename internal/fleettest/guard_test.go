package fleettest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// childOf has this test binary boot a fleet and wait, for the test that kills it.
const childOf = "FLEETTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childOf) == "" {
		os.Exit(m.Run())
	}
	fleet, err := fleettest.Start(context.Background(), fleettest.ClusterSpec{Name: "a", Nodes: []fleettest.NodeSpec{{Name: "n1"}}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("up", fleet.Dir)
	if os.Getenv(childOf) == "panic" {
		panic("as a test does")
	}
	select {}
}

// Whatever ends the process that booted a fleet, nothing of the fleet is left.
func TestNothingIsLeft(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]os.Signal{"killed": syscall.SIGKILL, "interrupted": syscall.SIGINT, "panic": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child := exec.CommandContext(t.Context(), self)
			child.Env = append(os.Environ(), childOf+"="+name)
			// A session of its own, so that an interrupt of its group is not one of ours.
			child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			dir, ok := strings.CutPrefix(strings.TrimSpace(line), "up ")
			if !ok {
				t.Fatalf("the child said %q, %v", line, err)
			}
			if end != nil {
				if n := len(processesOf(t, dir)); n < 5 {
					t.Errorf("%d processes name %s; want etcd, API server, controller manager, scheduler and kwok at least", n, dir)
				}
				// The whole group, as a terminal does it.
				if err := syscall.Kill(-child.Process.Pid, end.(syscall.Signal)); err != nil {
					t.Fatal(err)
				}
			}
			var exit *exec.ExitError
			if err := child.Wait(); !errors.As(err, &exit) {
				t.Fatalf("the child ended with %v", err)
			}
			fleettest.Eventually(t, func(context.Context) error {
				if left := processesOf(t, dir); len(left) > 0 {
					return fmt.Errorf("left: %q", left)
				}
				if _, err := os.Stat(dir); !os.IsNotExist(err) {
					return errors.New("left: " + dir)
				}
				return nil
			})
		})
	}
}

// processesOf gives the processes whose command names a directory: all of a fleet's do, the watchdog included.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-axww", "-o", "pid=,command=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.SplitSeq(string(out), "\n") {
		if strings.Contains(line, dir+"/") || strings.HasSuffix(line, dir) {
			found = append(found, line)
		}
	}
	return found
}
