package tofutest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Running is a command that has been started.
type Running struct {
	w              *Workspace
	args           []string
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	done           chan struct{}
	err            error
	collect        sync.Once
	result         *Result
}

// start starts a command; it waits for the one before.
func (w *Workspace) start(args ...string) *Running {
	w.t.Helper()
	w.mu.Lock()
	// Not the test's context: that ends before cleanups run, and a cleanup may destroy what the test built. The guard
	// ends what is left.
	r := &Running{w: w, args: args, cmd: w.command(context.Background(), args...), done: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		w.mu.Unlock()
		w.t.Fatalf("start %s: %v", w.runner, err)
	}
	go func() {
		r.err = r.cmd.Wait()
		w.guard.Forget(r.cmd)
		w.mu.Unlock()
		close(r.done)
	}()
	return r
}

// ApplyAsync starts an apply and returns at once, for tests that interfere with it.
func (w *Workspace) ApplyAsync(args ...string) *Running {
	w.t.Helper()
	return w.start(append([]string{"apply", "-json", "-input=false", "-auto-approve"}, args...)...)
}

// DestroyAsync starts a destroy and returns at once.
func (w *Workspace) DestroyAsync(args ...string) *Running {
	w.t.Helper()
	return w.start(append([]string{"destroy", "-json", "-input=false", "-auto-approve"}, args...)...)
}

// Done is closed when the command has ended.
func (r *Running) Done() <-chan struct{} { return r.done }

// Wait waits for the end and gives the result.
func (r *Running) Wait() *Result {
	r.w.t.Helper()
	<-r.done
	r.collect.Do(func() {
		var err error
		if r.result, err = newResult(r.args, r.stdout.Bytes(), r.stderr.Bytes(), r.err); err != nil {
			r.w.t.Fatal(err)
		}
	})
	return r.result
}

// Interrupt sends the runner alone what Ctrl-C sends, as CI systems do: the runner then asks the provider to stop.
func (r *Running) Interrupt() error { return r.cmd.Process.Signal(syscall.SIGINT) }

// Kill kills the runner and the provider at once, as a machine that goes away does.
func (r *Running) Kill() error { return syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) }

// KillProvider sends SIGKILL to the provider processes of the command, waits until they are gone, and gives their
// number. It may be called from a proxy's hook, while the provider waits for an answer. It waits up to 10 s for a
// provider to exist, and fails where the command ends without one.
func (r *Running) KillProvider() (int, error) {
	deadline := time.Now().Add(10 * time.Second)
	for {
		pids, err := r.ProviderPIDs()
		if err != nil {
			return 0, err
		}
		if len(pids) > 0 {
			return len(pids), killAll(pids, deadline)
		}
		select {
		case <-r.done:
			return 0, errors.New("tofutest: the command ended without a provider process to kill")
		case <-time.After(10 * time.Millisecond):
			if time.Now().After(deadline) {
				return 0, errors.New("tofutest: no provider process to kill within 10 s")
			}
		}
	}
}

func killAll(pids []int, deadline time.Time) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("tofutest: kill provider %d: %w", pid, err)
		}
	}
	for {
		table, err := processes()
		if err != nil {
			return err
		}
		alive := 0
		for _, p := range table {
			for _, pid := range pids {
				if p.pid == pid && !strings.HasPrefix(p.state, "Z") {
					alive++
				}
			}
		}
		if alive == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("tofutest: provider %v is still there after SIGKILL", pids)
		}
		<-time.After(5 * time.Millisecond) // until the next look at the process table
	}
}

// ProviderPIDs gives the provider processes that the runner has started and that are alive.
func (r *Running) ProviderPIDs() ([]int, error) {
	table, err := processes()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, p := range table {
		if p.parent == r.cmd.Process.Pid && !strings.HasPrefix(p.state, "Z") && strings.HasPrefix(p.command, r.w.provider) {
			pids = append(pids, p.pid)
		}
	}
	return pids, nil
}

type processInfo struct {
	pid, parent    int
	state, command string
}

// processes gives the process table in the form that Linux and macOS share.
func processes() ([]processInfo, error) {
	out, err := exec.Command("ps", "-axww", "-o", "pid=,ppid=,state=,command=").Output()
	if err != nil {
		return nil, fmt.Errorf("tofutest: ps: %w", err)
	}
	var table []processInfo
	for line := range strings.SplitSeq(string(out), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		pid, err1 := strconv.Atoi(fields[0])
		parent, err2 := strconv.Atoi(fields[1])
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("tofutest: ps printed %q: %w", line, err)
		}
		table = append(table, processInfo{pid: pid, parent: parent, state: fields[2], command: strings.Join(fields[3:], " ")})
	}
	return table, nil
}
