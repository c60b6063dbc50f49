package fleettest

import (
	"bytes"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	certificates "k8s.io/client-go/util/cert"
)

// JobSetNamespace is where JobSet is usually installed.
const JobSetNamespace = "jobset-system"

var jobSetKind = managerKind{
	engine:     EngineJobSet,
	title:      "JobSet",
	programs:   []managerProgram{{version: "0.10.1", name: "jobset"}},
	deployment: "jobset-controller",
	container:  "controller",
	labels:     map[string]string{"app.kubernetes.io/name": "jobset", "app.kubernetes.io/component": "controller"},
	configure:  configureJobSet,
	tend:       tendJobSet,
}

// JobSet is the manager of the spec's EngineJobSet, or nil. The certificate of its webhooks comes from the harness, which
// writes it where the program would, because the program looks for it at a path of the machine.
func (c *Cluster) JobSet() *Manager { return c.manager(EngineJobSet) }

func configureJobSet(_ context.Context, _ *Manager, _ managerProgram, config map[string]any, args []string) ([]string, error) {
	return args, unstructured.SetNestedField(config, false, "internalCertManagement", "enable")
}

// tendJobSet does as the program's own management of certificates: it fills the chart's Secret, and has the webhooks
// trust what is in it.
func tendJobSet(ctx context.Context, m *Manager) error {
	const name, service = "jobset-webhook-server-cert", "jobset-webhook-service"
	secrets := m.cluster.client.CoreV1().Secrets(m.deployment.Namespace)
	secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(secret.Data["tls.crt"]) == 0 {
		cert, key, err := certificates.GenerateSelfSignedCertKey(fmt.Sprintf("%s.%s.svc", service, m.deployment.Namespace), nil, nil)
		if err != nil {
			return err
		}
		secret.Data = map[string][]byte{"ca.crt": cert, "ca.key": key, "tls.crt": cert, "tls.key": key}
		if secret, err = secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	trusted := secret.Data["ca.crt"]

	admission := m.cluster.client.AdmissionregistrationV1()
	mutating, err := admission.MutatingWebhookConfigurations().Get(ctx, "jobset-mutating-webhook-configuration", metav1.GetOptions{})
	if err != nil {
		return err
	}
	changed := false
	for i := range mutating.Webhooks {
		changed = trust(&mutating.Webhooks[i].ClientConfig.CABundle, trusted) || changed
	}
	if changed {
		if _, err := admission.MutatingWebhookConfigurations().Update(ctx, mutating, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	validating, err := admission.ValidatingWebhookConfigurations().Get(ctx, "jobset-validating-webhook-configuration", metav1.GetOptions{})
	if err != nil {
		return err
	}
	changed = false
	for i := range validating.Webhooks {
		changed = trust(&validating.Webhooks[i].ClientConfig.CABundle, trusted) || changed
	}
	if changed {
		_, err = admission.ValidatingWebhookConfigurations().Update(ctx, validating, metav1.UpdateOptions{})
	}
	return err
}

// trust sets a bundle and tells whether it was another.
func trust(bundle *[]byte, trusted []byte) bool {
	if bytes.Equal(*bundle, trusted) {
		return false
	}
	*bundle = trusted
	return true
}
