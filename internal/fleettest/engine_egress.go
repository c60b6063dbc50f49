package fleettest

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// egress is the way from an API server to the Services of its cluster, for webhooks and aggregated APIs. The addresses of
// Services lead nowhere, as nothing routes them; the egress leads those of a Service that selects a pod which a Manager
// plays to that manager's process. So all that a chart says of webhooks is left as it is.
type egress struct {
	cluster *Cluster
	server  *http.Server
	url     string
}

// egressClient is the name in the API server's certificate, towards the egress and towards an aggregated API.
const egressClient = "front-proxy-client"

// startEgress serves the egress to the managers that the spec asks for, and writes the files that the API server needs to
// use it.
func (c *Cluster) startEgress() error {
	for _, kind := range c.spec.managerKinds() {
		c.managers = append(c.managers, &Manager{cluster: c, kind: kind, told: map[types.UID]string{}})
	}
	if len(c.managers) == 0 {
		return nil
	}
	client, err := c.ca.issue(pkix.Name{CommonName: egressClient}, false, inTenYears())
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	e := &egress{cluster: c, url: "https://" + listener.Addr().String()}
	configuration := fmt.Sprintf(`apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      tcp:
        url: %s
        tlsConfig: {caBundle: %q, clientCert: %q, clientKey: %q}
`, e.url, c.file("ca.crt"), c.file("front-proxy.crt"), c.file("front-proxy.key"))
	for name, content := range map[string][]byte{
		"front-proxy.crt": client.cert, "front-proxy.key": client.key, "egress.yaml": []byte(configuration),
	} {
		if err := os.WriteFile(c.file(name), content, 0o600); err != nil {
			return err
		}
	}
	certificate, err := tls.LoadX509KeyPair(c.file("apiserver.crt"), c.file("apiserver.key"))
	if err != nil {
		return err
	}
	e.server = &http.Server{
		Handler:   e,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}},
		ErrorLog:  log.New(io.Discard, "", 0), // the API server says what it could not reach
	}
	c.egress = e
	c.tasks.Go(func() { _ = e.server.ServeTLS(listener, "", "") })
	c.tasks.Go(func() {
		<-c.background.Done()
		_ = e.server.Close()
	})
	return nil
}

// args are the flags of an API server that uses the egress.
func (e *egress) args() []string {
	if e == nil {
		return nil
	}
	c := e.cluster
	return []string{
		"--egress-selector-config-file=" + c.file("egress.yaml"),
		// How an aggregated API knows for whom a request is.
		"--proxy-client-cert-file=" + c.file("front-proxy.crt"), "--proxy-client-key-file=" + c.file("front-proxy.key"),
		"--requestheader-client-ca-file=" + c.file("ca.crt"), "--requestheader-allowed-names=" + egressClient,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
	}
}

// ServeHTTP is part of http.Handler: it connects the client with what it asks for.
func (e *egress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	server, failed := e.dial(r.Context(), r.URL.Host)
	answer := "200 OK"
	if failed != nil {
		answer = "503 " + failed.Error() // of an answer, the API server passes on just this line
	} else {
		defer server.Close()
	}
	client, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 "+answer+"\r\n\r\n"); err != nil || failed != nil {
		return
	}
	// The fleet's end closes neither of the two, so it has to be waited for here.
	stop := context.AfterFunc(e.cluster.background, func() {
		_ = client.Close()
		_ = server.Close()
	})
	defer stop()
	ended := make(chan struct{}, 2)
	for _, each := range [][2]net.Conn{{server, client}, {client, server}} {
		go func() {
			_, _ = io.Copy(each[0], each[1]) // either side may go when it likes
			ended <- struct{}{}
		}()
	}
	<-ended
}

// dial connects to an address that the API server calls.
func (e *egress) dial(ctx context.Context, address string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	_, services, err := net.ParseCIDR(serviceCIDR)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip != nil && services.Contains(ip) {
		if address, err = e.address(ctx, host, port); err != nil {
			return nil, err
		}
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// address is where what a Service's port leads to listens.
func (e *egress) address(ctx context.Context, clusterIP string, port int) (string, error) {
	found, err := e.cluster.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.clusterIP", clusterIP).String(),
	})
	if err != nil {
		return "", err
	}
	for _, service := range found.Items {
		for _, each := range service.Spec.Ports {
			if int(each.Port) != port {
				continue
			}
			target := each.TargetPort
			if target == (intstr.IntOrString{}) {
				target = intstr.FromInt32(each.Port)
			}
			for _, manager := range e.cluster.managers {
				if address, ours := manager.serves(ctx, service, target); ours {
					return address, nil
				}
			}
			return "", fmt.Errorf("no endpoints available for service %q", service.Namespace+"/"+service.Name)
		}
	}
	return "", fmt.Errorf("no Service has the address %s and port %d", clusterIP, port)
}

// containerPort is the number of a container's port that a Service names.
func containerPort(containers []corev1.Container, target intstr.IntOrString) int {
	if target.Type == intstr.Int {
		return target.IntValue()
	}
	for _, container := range containers {
		for _, port := range container.Ports {
			if port.Name == target.StrVal {
				return int(port.ContainerPort)
			}
		}
	}
	return 0
}
