package provider

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/access"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// kubeconfigEphemeral is berth_kubeconfig: a credential of an access for one run, which is in no state and is revoked at the
// end of the run.
type kubeconfigEphemeral struct{ provider *configured }

var (
	_ ephemeral.EphemeralResourceWithConfigure = (*kubeconfigEphemeral)(nil)
	_ ephemeral.EphemeralResourceWithClose     = (*kubeconfigEphemeral)(nil)
)

func newKubeconfigEphemeral() ephemeral.EphemeralResource { return &kubeconfigEphemeral{} }

type kubeconfigEphemeralModel struct {
	Cluster              types.String `tfsdk:"cluster"`
	Access               types.String `tfsdk:"access"`
	UID                  types.String `tfsdk:"uid"`
	Lifetime             types.String `tfsdk:"lifetime"`
	Server               types.String `tfsdk:"server"`
	Kubeconfig           types.String `tfsdk:"kubeconfig"`
	Token                types.String `tfsdk:"token"`
	Host                 types.String `tfsdk:"host"`
	ClusterCACertificate types.String `tfsdk:"cluster_ca_certificate"`
	ExpiresAt            types.String `tfsdk:"expires_at"`
}

// defaultLent is how long a kubeconfig is good for unless `lifetime` says otherwise.
const defaultLent = time.Hour

func (*kubeconfigEphemeral) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_kubeconfig"
}

func (*kubeconfigEphemeral) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	computed := func(description string, secret bool) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, Sensitive: secret, MarkdownDescription: description}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A kubeconfig for one run: with a token of a `berth_cluster_access` that is minted when the run opens it, expires, and is revoked when the run ends. It is in no state and no plan. " +
			"What can store no credential, such as another provider, a provisioner or a write-only argument, takes it from here.\n\n" +
			"It is opened by a plan too, which for that time creates a Secret on the cluster that the token is bound to (`<service_account>-minted-…`); the end of the run deletes it, and with it the token. A run that is killed leaves the Secret, whose token expires all the same; what berth does next with the access sweeps it.\n\n" +
			"Where the access may be created or changed in the same apply, set `uid`: it is known only afterwards, and so the runner waits for the apply to open this.",
		Attributes: map[string]schema.Attribute{
			"access": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "The `id` of a `berth_cluster_access`, whose ServiceAccount the token is of. Whether the access keeps a long-lived token makes no difference.",
			},
			"uid": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "The `uid` of that `berth_cluster_access`. While the access is only planned it is unknown, and runners open nothing with an unknown argument before the apply. A ServiceAccount with another UID is refused. Default: whichever is there.",
				Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"cluster": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "The key of the access's cluster in the provider's `clusters`. Default: the one in `access`. Needed only where the key was renamed after the access was created.",
				Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"lifetime": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "How long the token is good for, such as `30m`; as long as the longest run. Default `1h`. At least `10m`; the API server may give less than what is asked for. It cannot be renewed.",
				Validators:          []validator.String{goDuration(), tokenLifetime()},
			},
			"server": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "The API server's URL for `kubeconfig` and `host`, where it has to be another one than the provider's own connection has, such as one that is reached from inside a network. Default: that of the connection.",
				Validators:          []validator.String{httpsURL()},
			},
			"kubeconfig":             computed("The content of a kubeconfig with one context, which is the current one and is called like `cluster`.", true),
			"token":                  computed("The token alone.", true),
			"host":                   computed("The API server's URL.", false),
			"cluster_ca_certificate": computed("The PEM certificates that the API server's certificate is verified with; null where those of the system are used.", false),
			"expires_at":             computed("When the token expires, in RFC 3339.", false),
		},
	}
}

func (k *kubeconfigEphemeral) Configure(_ context.Context, req ephemeral.ConfigureRequest, _ *ephemeral.ConfigureResponse) {
	k.provider, _ = req.ProviderData.(*configured)
}

// lent is what Close has to give back. It holds nothing secret.
type lent struct {
	Cluster  string     `json:"cluster"`
	Ref      access.Ref `json:"ref"`
	Borrower string     `json:"borrower"`
	Expires  time.Time  `json:"expires"`
}

// keyLent is where the private data has it.
const keyLent = "lent"

func (k *kubeconfigEphemeral) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var model kubeconfigEphemeralModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	doing := fmt.Sprintf("Opening berth_kubeconfig for access %q failed", model.Access.ValueString())
	given, err := k.open(ctx, &model)
	if early, ok := errors.AsType[*tooEarly](err); ok && req.ClientCapabilities.DeferralAllowed {
		resp.Deferred = &ephemeral.Deferred{Reason: early.reason}
		return
	}
	if err != nil {
		addError(&resp.Diagnostics, doing, err, nil)
		return
	}
	note, err := json.Marshal(given)
	if err != nil {
		addError(&resp.Diagnostics, doing, errors.Join(err, k.giveBack(ctx, given)), nil)
		return
	}
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, keyLent, note)...)
	resp.Diagnostics.Append(resp.Result.Set(ctx, &model)...)
}

// open mints the token and fills the model.
func (k *kubeconfigEphemeral) open(ctx context.Context, model *kubeconfigEphemeralModel) (lent, error) {
	ref, err := access.ParseRef(model.Access.ValueString())
	if err != nil {
		return lent{}, err
	}
	if model.Cluster.IsNull() {
		model.Cluster = types.StringValue(ref.Cluster)
	}
	key := model.Cluster.ValueString()
	c, err := k.provider.fleet.Cluster(key)
	if errors.Is(err, cluster.ErrDeferred) {
		return lent{}, connectionUnknown(key)
	}
	if err != nil {
		return lent{}, err
	}
	if _, err := c.UID(ctx); err != nil {
		return lent{}, err
	}
	handout, err := access.Look(ctx, c, ref)
	switch {
	case err != nil:
		return lent{}, err
	case !handout.Exists && handout.Pending:
		return lent{}, accessPlanned(ref)
	case handout.Exists && !model.UID.IsNull() && model.UID.ValueString() != string(handout.AccountUID):
		return lent{}, anotherAccount(c, ref, model.UID.ValueString(), string(handout.AccountUID))
	}
	stored, err := c.StoredConnection()
	if err != nil {
		return lent{}, err
	}
	lifetime := defaultLent
	if !model.Lifetime.IsNull() {
		if lifetime, err = time.ParseDuration(model.Lifetime.ValueString()); err != nil {
			return lent{}, err
		}
	}
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		return lent{}, err
	}
	given := lent{Cluster: key, Ref: ref, Borrower: "kubeconfig." + hex.EncodeToString(random)}
	token, err := access.Lend(ctx, c, ref, given.owner(c), lifetime)
	if err != nil {
		return lent{}, err
	}
	given.Expires = token.Expires.UTC()
	stored.Token = token.Value
	if !model.Server.IsNull() {
		stored.Server = model.Server.ValueString()
	}
	content, err := stored.Kubeconfig(key)
	if err != nil {
		return lent{}, errors.Join(err, k.giveBack(ctx, given))
	}
	model.Kubeconfig, model.Token, model.Host = types.StringValue(string(content)), types.StringValue(token.Value), types.StringValue(stored.Server)
	model.ClusterCACertificate = optionalString(string(stored.CAData))
	model.ExpiresAt = types.StringValue(given.Expires.Format(time.RFC3339))
	return given, nil
}

func (l lent) owner(c *cluster.Cluster) kube.Owner {
	return kube.Owner{Configuration: c.Owner(), Resource: l.Borrower}
}

// tooEarly is a refusal that a runner which can wait until the apply need not show.
type tooEarly struct {
	problem *cluster.Problem
	reason  ephemeral.DeferredReason
}

func (t *tooEarly) Error() string { return t.problem.Error() }
func (t *tooEarly) Unwrap() error { return t.problem }

func connectionUnknown(key string) error {
	return &tooEarly{reason: ephemeral.DeferredReasonProviderConfigUnknown, problem: &cluster.Problem{
		Attribute: "cluster", Summary: fmt.Sprintf("The connection of cluster %q is not known yet", key),
		Detail: fmt.Sprintf("refusing: clusters[%q] has a value that is known only at the apply, and no kubeconfig can be made before. Have an argument of this berth_kubeconfig depend on the same value, such as `server`: then the runner opens it at the apply.", key),
	}}
}

func accessPlanned(ref access.Ref) error {
	return &tooEarly{reason: ephemeral.DeferredReasonAbsentPrereq, problem: &cluster.Problem{
		Attribute: "access", Summary: fmt.Sprintf("Access %q does not exist yet", ref),
		Detail: "refusing: this plan is about to create the access, and no token can be had of it before. Set uid to the uid of the berth_cluster_access: it is known only when the access is there, and the runner waits for it.",
	}}
}

func anotherAccount(c *cluster.Cluster, ref access.Ref, want, found string) error {
	return &cluster.Problem{
		Attribute: "uid", Summary: fmt.Sprintf("Access %q has another ServiceAccount now", ref),
		Detail: fmt.Sprintf("refusing: uid is %s, but ServiceAccount/%s/%s on %s has the UID %s. Apply its berth_cluster_access, or set uid to that of the right one.", want, ref.Namespace, ref.Name, c.Context(), found),
	}
}

func (k *kubeconfigEphemeral) Close(ctx context.Context, req ephemeral.CloseRequest, resp *ephemeral.CloseResponse) {
	note, diagnostics := req.Private.GetKey(ctx, keyLent)
	resp.Diagnostics.Append(diagnostics...)
	if len(note) == 0 || resp.Diagnostics.HasError() {
		return
	}
	var given lent
	if err := json.Unmarshal(note, &given); err != nil {
		addError(&resp.Diagnostics, "Closing berth_kubeconfig failed", err, nil)
		return
	}
	if err := k.giveBack(ctx, given); err != nil {
		// What the run was for is done, and the token ends by itself.
		resp.Diagnostics.AddWarning(fmt.Sprintf("The token of access %q could not be revoked", given.Ref),
			fmt.Sprintf("It is good until it expires at %s, and its Secret is swept after that. To revoke it now, delete the Secret %s-minted-… that is marked as %s, in namespace %s. %s",
				given.Expires.Format(time.RFC3339), given.Ref.Name, given.Borrower, given.Ref.Namespace, err))
	}
}

// giveBack revokes what was lent. A cluster that no longer has it is as good.
func (k *kubeconfigEphemeral) giveBack(ctx context.Context, given lent) error {
	c, err := k.provider.fleet.Cluster(given.Cluster)
	if err != nil {
		return err
	}
	return access.Leave(ctx, c, given.Ref, given.owner(c), "")
}

// httpsURL is the address of an API server.
func httpsURL() validator.String {
	return stringCheck{"an https URL", func(value string) string {
		if !strings.HasPrefix(value, "https://") {
			return "is not the address of an API server. Write it as an https URL, such as https://203.0.113.10:6443."
		}
		return ""
	}}
}
