package fleettest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Guard makes sure that processes, and a directory, do not outlive the process that started them.
//
// Its watchdog is a shell in a process group of its own that reads a pipe of which only this process, and children
// that are just being started, hold the other end. Each child is the leader of its own process group and writes that
// group's ID into the pipe before it becomes the program, so there is no moment at which a running child is unknown
// to the watchdog. When this process ends, in whatever way, the pipe ends, and the watchdog kills the groups and
// removes the directory.
type Guard struct {
	dir      string
	watchdog *exec.Cmd
	pipe     *os.File // write end
}

// watchdogScript reads "group ID", "gone ID", "path PATH" and "done" lines. The loop after kill waits until the groups
// are gone, as rm would race with a process that still writes; it gives up after 5 s, since a killed process that
// nobody reaps keeps its group for ever. There is no -- before the groups, which dash would take for one.
const watchdogScript = `
dir=$1 groups= paths=
while read -r what value; do
  case $what in
    group) groups="$groups $value" ;;
    gone) kept=; for g in $groups; do [ "$g" = "$value" ] || kept="$kept $g"; done; groups=$kept ;;
    path) paths="$paths $value" ;;
    done) exit 0 ;;
  esac
done
for g in $groups; do kill -KILL "-$g" 2>/dev/null; done
alive() { for g in $groups; do kill -0 "-$g" 2>/dev/null && return; done; return 1; }
tries=50
while [ $tries -gt 0 ] && alive; do tries=$((tries - 1)); sleep 0.1; done
rm -rf -- "$dir" $paths || { sleep 1; rm -rf -- "$dir" $paths; } || exit 1
for p in $paths; do rmdir "${p%/*}" 2>/dev/null; done
exit 0
`

// NewGuard starts a guard over dir, which need not be empty.
func NewGuard(dir string) (*Guard, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("fleettest: watchdog: %w", err)
	}
	defer func() { _ = read.Close() }()
	watchdog := exec.Command("/bin/sh", "-c", watchdogScript, "fleettest-watchdog", dir)
	watchdog.Stdin = read
	watchdog.Dir = "/"
	// A group of its own: Ctrl-C reaches the whole foreground group and must not reach the watchdog.
	watchdog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := watchdog.Start(); err != nil {
		_ = write.Close()
		return nil, fmt.Errorf("fleettest: watchdog: %w", err)
	}
	return &Guard{dir: dir, watchdog: watchdog, pipe: write}, nil
}

// Command is exec.CommandContext for a guarded child. When ctx ends, the child's whole process group is killed. The
// caller calls Forget once the child has been waited for.
func (g *Guard) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	// The shell is the group's leader ($$), registers it on descriptor 3, closes that, and becomes the program.
	shim := append([]string{"-c", `echo "group $$" >&3 && exec 3>&- && exec "$@"`, "fleettest-child", program}, args...)
	cmd := exec.CommandContext(ctx, "/bin/sh", shim...)
	cmd.ExtraFiles = []*os.File{g.pipe}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// Forget tells the watchdog that a child is gone, since its ID may be used by others from now on.
func (g *Guard) Forget(cmd *exec.Cmd) {
	if cmd.Process != nil {
		fmt.Fprintf(g.pipe, "gone %d\n", cmd.Process.Pid)
	}
}

// RemoveToo has the watchdog remove a path outside of the directory as well, and its parent if that is then empty.
func (g *Guard) RemoveToo(path string) { fmt.Fprintf(g.pipe, "path %s\n", path) }

// Close ends the guard. With done it does nothing more; otherwise the watchdog kills what it knows of and removes the
// directory, and Close waits for that. It fails where the watchdog could not remove something.
func (g *Guard) Close(done bool) error {
	if done {
		fmt.Fprintln(g.pipe, "done")
	}
	_ = g.pipe.Close()
	if err := g.watchdog.Wait(); err != nil {
		return fmt.Errorf("fleettest: the watchdog of %s: %w", g.dir, err)
	}
	return nil
}

// supervisor starts the long-running processes of a fleet and ends them.
type supervisor struct {
	*Guard

	mu        sync.Mutex
	processes []*process
	extra     []string // paths outside of dir that stop removes
	stopped   bool
}

// process is one child and its process group.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has been reaped
}

// run starts a program with its output appended to log.
func (s *supervisor) run(name, log, program string, args ...string) (*process, error) {
	return s.runWith(nil, name, log, program, args...)
}

// runWith is run with "NAME=value" variables, beside the few that every program gets.
func (s *supervisor) runWith(env []string, name, log, program string, args ...string) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, fmt.Errorf("%s: the fleet has been stopped", name)
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd := s.Command(context.Background(), program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	// Nothing of the user's environment (KUBECONFIG, proxies, GODEBUG, …) should change how a cluster behaves.
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir}, env...)
	cmd.Dir = s.dir
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	s.processes = append(s.processes, p)
	go func() {
		_ = cmd.Wait() // what it has to say is in cmd.ProcessState too
		s.Forget(cmd)
		close(p.done)
	}()
	return p, nil
}

// signal reaches the child's whole group.
func (p *process) signal(s syscall.Signal) error {
	select {
	case <-p.done:
		return fmt.Errorf("%s is not running", p.name)
	default:
	}
	return syscall.Kill(-p.cmd.Process.Pid, s)
}

// failure describes a child that ended by itself.
func (p *process) failure() error {
	return fmt.Errorf("%s ended (%s); its log ends with:\n%s", p.name, p.cmd.ProcessState, tail(p.log, 2000))
}

// kill ends a child.
func (s *supervisor) kill(p *process) {
	_ = p.signal(syscall.SIGKILL) // the only error is that it has ended already
	<-p.done
}

// removeToo has a path outside of the directory removed at the end.
func (s *supervisor) removeToo(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.extra = append(s.extra, path)
		s.RemoveToo(path)
	}
}

// stop kills every child, waits until they are gone, removes the files, and sends the watchdog home.
func (s *supervisor) stop() error {
	s.mu.Lock()
	s.stopped = true
	processes, extra := s.processes, s.extra
	s.mu.Unlock()

	// All at once: the data is thrown away, so nothing needs an orderly shutdown.
	for _, p := range processes {
		_ = p.signal(syscall.SIGKILL)
	}
	var errs []error
	for _, p := range processes {
		select {
		case <-p.done:
		case <-time.After(30 * time.Second):
			errs = append(errs, fmt.Errorf("fleettest: %s (process %d) did not end after SIGKILL", p.name, p.cmd.Process.Pid))
		}
	}
	for _, path := range append([]string{s.dir}, extra...) {
		if err := os.RemoveAll(path); err != nil {
			errs = append(errs, fmt.Errorf("fleettest: %w", err))
		}
	}
	for _, path := range extra {
		_ = os.Remove(filepath.Dir(path)) // unless another fleet's paths are in it
	}
	// Where something failed here, the watchdog tries once more.
	errs = append(errs, s.Close(len(errs) == 0))
	return errors.Join(errs...)
}

// tail gives the last limit bytes of a file, for error messages.
func tail(path string, limit int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		_, _ = f.Seek(-limit, io.SeekEnd)
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(content)
}
