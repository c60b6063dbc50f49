package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// pluginTimeout bounds the run of a plugin that is made only to hear what it says.
	pluginTimeout = 10 * time.Second
	// pluginLines is how many of a plugin's last lines a message has room for.
	pluginLines = 5
)

// errPluginOutput stands for an error that quotes a plugin's output, which is a credential.
var errPluginOutput = errors.New("the exec plugin's output is not a credential")

var pluginExit = regexp.MustCompile(`failed with exit code (-?\d+)`)

// aboutPlugin is about an exec plugin that gave no credential. client-go flattens these errors to text.
func (c classification) aboutPlugin() *ConnectionError {
	_, text, found := strings.Cut(c.err.Error(), "getting credentials: ")
	if !found || c.config == nil || c.config.ExecProvider == nil {
		return nil
	}
	plugin := c.config.ExecProvider
	where := fmt.Sprintf("The exec plugin %s of %s", quoted(plugin.Command), c.entry())
	if _, err := exec.LookPath(plugin.Command); err != nil && strings.HasPrefix(text, "exec: ") {
		hint := ""
		if plugin.InstallHint != "" {
			hint = " Its kubeconfig says: " + c.brief(plugin.InstallHint)
		}
		return c.fail(CauseExecNotFound, "its exec plugin is not there", "%s is not there (on the PATH, or where its path says) or not executable. Install it on the machine that runs the apply.%s", where, hint)
	}
	if match := pluginExit.FindStringSubmatch(text); match != nil {
		said := "It wrote nothing to stderr."
		if lines := hearPlugin(plugin); lines != "" {
			said = "It wrote: " + lines
		}
		failure := c.fail(CauseExecFailed, "its exec plugin failed", "%s ended with exit code %s. Run it by hand on this machine, and log in again if it says so. ", where, match[1])
		failure.Detail += redact(said, secretsOf(c.config)...)
		return failure
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

// hearPlugin runs a plugin once more for what it writes to stderr, which client-go passes on to our own stderr, where
// nobody reads it. Every request runs a plugin that fails, so one run more changes nothing. It returns the last lines,
// with no credential in them.
func hearPlugin(plugin *clientcmdapi.ExecConfig) string {
	ctx, cancel := context.WithTimeout(context.Background(), pluginTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, plugin.Command, plugin.Args...)
	command.Env = os.Environ()
	for _, variable := range plugin.Env {
		command.Env = append(command.Env, variable.Name+"="+variable.Value)
	}
	command.Env = append(command.Env, fmt.Sprintf(`KUBERNETES_EXEC_INFO={"kind":"ExecCredential","apiVersion":%q,"spec":{"interactive":false}}`, plugin.APIVersion))
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	command.WaitDelay = time.Second // a grandchild may hold the pipes open
	_ = command.Run()               // that it fails is known

	text := pluginText(plugin, stdout.Bytes(), stderr.String())
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > pluginLines {
		lines = lines[len(lines)-pluginLines:]
	}
	return brief(strings.Join(lines, " / "))
}

// pluginText takes out of a plugin's words the credential that it printed, and the values of the variables that the
// entry gives it, of which the names are shown instead: they tell as much and are no secret.
func pluginText(plugin *clientcmdapi.ExecConfig, stdout []byte, text string) string {
	for _, variable := range plugin.Env {
		if len(variable.Value) >= shortestSecret {
			text = strings.ReplaceAll(text, variable.Value, "$"+variable.Name)
		}
	}
	var credential struct {
		Status struct {
			Token string `json:"token"`
			Key   string `json:"clientKeyData"`
		} `json:"status"`
	}
	_ = json.Unmarshal(stdout, &credential) // whatever else it is holds no credential that we know
	secrets := []string{credential.Status.Token, credential.Status.Key}
	for i, argument := range plugin.Args {
		name, value, joined := strings.Cut(argument, "=")
		if !joined && i+1 < len(plugin.Args) {
			value = plugin.Args[i+1]
		}
		if secretFlag.MatchString(name) {
			secrets = append(secrets, value)
		}
	}
	return redact(text, secrets...)
}

// secretFlag is the name of a plugin's flag whose value is a credential.
var secretFlag = regexp.MustCompile(`(?i)^--?.*(token|secret|password|credential|key)`)
