package fleettest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The ports of a manager's container.
const (
	managerWebhooks = 9443
	managerHealth   = 8081
)

// errNoConfig is the fault of a Deployment whose container gets no configuration.
var errNoConfig = errors.New("the container has no argument --config that names a file of a mounted ConfigMap")

// configFile gives the container's configuration and its arguments but that one.
func (m *Manager) configFile(ctx context.Context, deployment *appsv1.Deployment, container corev1.Container) (content string, args []string, err error) {
	var path string
	for _, arg := range container.Args {
		if value, found := strings.CutPrefix(arg, "--config="); found {
			path = value
			continue
		}
		args = append(args, arg)
	}
	volume, part := mountedAt(deployment, container, path)
	if path == "" || volume.ConfigMap == nil {
		return "", nil, errNoConfig
	}
	config, err := m.cluster.client.CoreV1().ConfigMaps(deployment.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
	if err != nil {
		return "", nil, err
	}
	return config.Data[part], args, nil
}

// configured writes the manager's configuration for a process, from that of the chart, and gives the arguments.
func (m *Manager) configured(ctx context.Context, deployment *appsv1.Deployment, container corev1.Container, program managerProgram) ([]string, error) {
	content, args, err := m.configFile(ctx, deployment, container)
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := yaml.Unmarshal([]byte(content), &config); err != nil {
		return nil, fmt.Errorf("the configuration is no YAML: %w", err)
	}
	m.local = map[int]int{}
	for _, port := range []int{managerWebhooks, managerHealth} {
		if m.local[port], err = freePort(); err != nil {
			return nil, err
		}
	}
	m.health = m.local[managerHealth]
	for _, setting := range []struct {
		value any
		path  []string
	}{
		{false, []string{"leaderElection", "leaderElect"}},
		{fmt.Sprintf("127.0.0.1:%d", m.health), []string{"health", "healthProbeBindAddress"}},
		{"0", []string{"metrics", "bindAddress"}},
		{"127.0.0.1", []string{"webhook", "host"}},
		{int64(m.local[managerWebhooks]), []string{"webhook", "port"}},
		{m.cluster.file(filepath.Join(m.name(), "certificates")), []string{"webhook", "certDir"}},
	} {
		if err := unstructured.SetNestedField(config, setting.value, setting.path...); err != nil {
			return nil, fmt.Errorf("the configuration: %w", err)
		}
	}
	if args, err = m.kind.configure(ctx, m, program, config, args); err != nil {
		return nil, err
	}
	written, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	file := m.cluster.file(filepath.Join(m.name(), "config.yaml"))
	return append([]string{"--config=" + file}, args...), os.WriteFile(file, written, 0o600)
}
