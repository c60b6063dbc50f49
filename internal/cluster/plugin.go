package cluster

import (
	"errors"
	"os"
	"os/exec"
	"slices"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// client-go gives a credential plugin our own stderr, which is the runner's log, and a plugin may print any secret there
// (X9). So what client-go runs is this program itself, told by its arguments to run the plugin without a stderr:
//
//	<this program> run-credential-plugin <path of the plugin> <command> [<args>…]
//
// All else (KUBERNETES_EXEC_INFO, environment, stdin, stdout, exit code) passes through untouched, so that expiry,
// refresh and certificates stay client-go's own.
const runPluginArgument = "run-credential-plugin"

// notStarted is the exit code for a plugin that could not be started, as shells have it.
const notStarted = 126

// An init, so that every program with this package in it, tests included, can stand in for the plugin, and before the
// program does anything of its own.
func init() {
	if len(os.Args) > 3 && os.Args[1] == runPluginArgument {
		os.Exit(runPlugin(os.Args[2], os.Args[3:]))
	}
}

// runPlugin runs a plugin whose stderr goes nowhere, and returns its exit code.
func runPlugin(path string, args []string) int {
	command := exec.Cmd{Path: path, Args: args, Stdin: os.Stdin, Stdout: os.Stdout}
	err := command.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return notStarted
	}
	return 0
}

// credentialPlugin is an exec plugin as its owner wrote it, and the path of its program.
type credentialPlugin struct {
	clientcmdapi.ExecConfig

	path string
}

// quietPlugin is a plugin's configuration for client-go, with this program before the plugin's own. The plugin is looked
// up here, as client-go would: not by a PATH among its own variables.
func quietPlugin(plugin clientcmdapi.ExecConfig) (*clientcmdapi.ExecConfig, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath(plugin.Command)
	if err != nil {
		path = plugin.Command // it has just gone: running it says so
	}
	plugin.Args = append([]string{runPluginArgument, path, plugin.Command}, plugin.Args...)
	plugin.Command = self
	return &plugin, nil
}

// pluginOf is the exec plugin of a configuration, without what quietPlugin put before it. It is nil where there is none.
func pluginOf(config *rest.Config) *credentialPlugin {
	if config == nil || config.ExecProvider == nil {
		return nil
	}
	plugin := credentialPlugin{ExecConfig: *config.ExecProvider, path: config.ExecProvider.Command}
	if args := plugin.Args; len(args) >= 3 && args[0] == runPluginArgument {
		plugin.path, plugin.Command, plugin.Args = args[1], args[2], slices.Clone(args[3:])
	}
	return &plugin
}
