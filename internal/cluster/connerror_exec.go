package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

const (
	// pluginTimeout bounds the run of a plugin that is made only to hear what it says.
	pluginTimeout = 10 * time.Second
	// pluginLines is how many of a plugin's last lines a message has room for.
	pluginLines = 5
	// pluginOutput is how many bytes of its output are kept to find these lines, and the credential, in.
	pluginOutput = 256 << 10
)

// errPluginOutput stands for an error that quotes a plugin's output, which is a credential.
var errPluginOutput = errors.New("the exec plugin's output is not a credential")

var pluginExit = regexp.MustCompile(`failed with exit code (-?\d+)`)

// aboutPlugin is about an exec plugin that gave no credential. client-go flattens these errors to text.
func (c classification) aboutPlugin() *ConnectionError {
	_, text, found := strings.Cut(c.err.Error(), "getting credentials: ")
	plugin := pluginOf(c.config)
	if !found || plugin == nil {
		return nil
	}
	where := fmt.Sprintf("The exec plugin %s of %s", quoted(plugin.Command), c.entry())
	if _, err := exec.LookPath(plugin.Command); err != nil && strings.HasPrefix(text, "exec: ") {
		hint := ""
		if plugin.InstallHint != "" {
			hint = " Its kubeconfig says: " + c.brief(plugin.InstallHint)
		}
		return c.fail(CauseExecNotFound, "its exec plugin is not there", "%s is not there (on the PATH, or where its path says) or not executable. Install it on the machine that runs the apply.%s", where, hint)
	}
	if match := pluginExit.FindStringSubmatch(text); match != nil {
		lines, err := plugin.hear()
		if err != nil {
			return c.fail(CauseExecFailed, "its exec plugin failed", "%s could not be run: %s. Check that it is a program for this machine.", where, c.brief(err.Error()))
		}
		said := "It wrote nothing to stderr."
		if lines != "" {
			said = "It wrote: " + lines
		}
		if strings.Contains(lines, "$") {
			said += " ($NAME and $1 stand for its variables and arguments, whose values are not shown.)"
		}
		failure := c.fail(CauseExecFailed, "its exec plugin failed", "%s ended with exit code %s. Run it by hand on this machine, and log in again if it says so. ", where, match[1])
		failure.Detail += redact(said, secretsOf(c.config)...)
		return failure
	}
	if _, err := os.Stat(c.config.ExecProvider.Command); err != nil && plugin.path != c.config.ExecProvider.Command {
		return c.fail(CauseExecFailed, "its exec plugin failed", "%s runs under the provider's own program, which is no longer there: %s. It was probably replaced meanwhile: apply again.", where, err)
	}
	if reason, ok := strings.CutPrefix(text, "exec: "); ok {
		return c.fail(CauseExecFailed, "its exec plugin failed", "%s could not be run: %s. Check that it is a program for this machine.", where, c.brief(reason))
	}
	c.err = errPluginOutput
	why := "printed something that is not an ExecCredential"
	switch {
	case strings.Contains(text, "configured to use API version") && !strings.Contains(text, "__internal"):
		why = "answered in another version than " + quoted(plugin.APIVersion)
	case strings.Contains(text, "didn't return a status"), strings.Contains(text, "didn't return a token"):
		why = "printed an ExecCredential with no token and no certificate in it"
	case strings.Contains(text, "only certificate or key"):
		why = "printed a certificate or a key, but not both"
	case strings.Contains(text, "client key/certificate"), strings.Contains(text, "client certificate"):
		why = "printed a certificate and a key that do not fit together"
	}
	return c.fail(CauseExecOutput, "its exec plugin gave no credential", "%s %s. Its output is not shown, as it may hold a credential. Run it by hand on this machine, and check its arguments and api_version.", where, why)
}

// hear runs a plugin once more for what it writes to stderr, which no run for client-go keeps. Every request runs a
// plugin that fails, so one run more changes nothing. It returns the last lines, with no credential in them, or the
// error for which the plugin could not be started.
func (p *credentialPlugin) hear() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), pluginTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, p.path, p.Args...)
	command.Args[0] = p.Command
	command.Env = os.Environ()
	for _, variable := range p.Env {
		command.Env = append(command.Env, variable.Name+"="+variable.Value)
	}
	command.Env = append(command.Env, fmt.Sprintf(`KUBERNETES_EXEC_INFO={"kind":"ExecCredential","apiVersion":%q,"spec":{"interactive":false}}`, p.APIVersion))
	var stdout, stderr tail
	command.Stdout, command.Stderr = &stdout, &stderr
	command.WaitDelay = time.Second // a grandchild may hold the pipes open
	if err := command.Start(); err != nil {
		return "", err
	}
	_ = command.Wait() // that it fails is known

	text := p.words(stdout.data, stderr.lines())
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > pluginLines {
		lines = lines[len(lines)-pluginLines:]
	}
	return brief(strings.Join(lines, " / ")), nil
}

// tail keeps the end of what is written to it.
type tail struct {
	data []byte
	cut  bool
}

func (t *tail) Write(data []byte) (int, error) {
	t.data = append(t.data, data...)
	if over := len(t.data) - pluginOutput; over > 0 {
		t.data, t.cut = append([]byte(nil), t.data[over:]...), true
	}
	return len(data), nil
}

// lines is the text without the line that was cut: half a secret would not be recognised.
func (t *tail) lines() string {
	text := string(t.data)
	if t.cut {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
