package release

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"
)

// existence answers Helm's question whether an object exists from the cluster's snapshot: Helm asks for each object of
// a release by name, and only looks at the metadata. It is a client for reading that one object.
type existence struct {
	client *client
	object object
}

var _ resource.RESTClient = (*existence)(nil)

// Get reads the object.
func (e *existence) Get() *rest.Request {
	content := rest.ClientContentConfig{
		ContentType: runtime.ContentTypeJSON, GroupVersion: e.object.kind.GVK().GroupVersion(),
		Negotiator: runtime.NewClientNegotiator(resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer, e.object.kind.GVK().GroupVersion()),
	}
	return rest.NewRequestWithClient(&url.URL{Scheme: "https", Host: "snapshot"}, "", content, &http.Client{Transport: e}).Verb(http.MethodGet)
}

// Post, Patch, Delete and Put are never asked for: berth's client writes by itself.
func (e *existence) Post() *rest.Request                 { return e.Get() }
func (e *existence) Patch(types.PatchType) *rest.Request { return e.Get() }
func (e *existence) Delete() *rest.Request               { return e.Get() }
func (e *existence) Put() *rest.Request                  { return e.Get() }

// RoundTrip is the answer.
func (e *existence) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		return nil, fmt.Errorf("%s %s: this client only reads", request.Method, e.object.key())
	}
	one := e.object
	live, err := e.client.cluster.Exists(e.client.ctx, one.kind, one.GetNamespace(), one.GetName())
	if err != nil {
		return nil, err
	}
	code := http.StatusOK
	var answer any = live
	if live == nil {
		code = http.StatusNotFound
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}
