package provider

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/chart"
)

type chartsModel struct {
	RepositoryOverrides types.Map    `tfsdk:"repository_overrides"`
	CacheDir            types.String `tfsdk:"cache_dir"`
	Credentials         types.Map    `tfsdk:"credentials"`
}

type chartCredentialModel struct {
	Username      types.String `tfsdk:"username"`
	Password      types.String `tfsdk:"password"`
	Token         types.String `tfsdk:"token"`
	CACertificate types.String `tfsdk:"ca_certificate"`
}

func chartsAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Where charts come from. A chart that was fetched once is kept by its digest, and a plan asks no repository for it again. " +
			"Values may be ephemeral, or unknown until the apply: then only charts that are in the cache can be planned, and the plan says what was put off.",
		Attributes: map[string]schema.Attribute{
			"repository_overrides": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "What is used in the place of a repository: its URL, as resources write it, to another URL (`https://…`, `oci://…`) or to a local folder that holds `<name>-<version>.tgz` or the chart's own folder `<name>`. " +
					"For mirrors and networks without the internet; resources stay as they are. Default: none.",
				Validators: []validator.Map{noNulls{}, mapvalidator.KeysAre(stringvalidator.LengthAtLeast(1)), mapvalidator.ValueStringsAre(stringvalidator.LengthAtLeast(1))},
			},
			"cache_dir": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "The folder that keeps fetched charts from run to run; a leading `~` is the home folder. Default: `terraform-provider-berth/charts` in the user's cache folder. Where it cannot be written, charts are kept in memory.",
				Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"credentials": schema.MapNestedAttribute{
				Optional: true,
				MarkdownDescription: "What repositories ask for, by the beginning of their URL after overrides, such as `oci://registry.example.com/charts`; the longest that fits is used. " +
					"They are in no state, and are sent to nobody else. Default: none; the credentials of `helm` and `docker` on this machine are not read.",
				Validators: []validator.Map{noNulls{}, mapvalidator.KeysAre(stringvalidator.LengthAtLeast(1))},
				NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{chartCredentialCheck{}}, Attributes: map[string]schema.Attribute{
					"username":       schema.StringAttribute{Optional: true, MarkdownDescription: "The user, with `password`."},
					"password":       schema.StringAttribute{Optional: true, Sensitive: true, MarkdownDescription: "The password of `username`."},
					"token":          schema.StringAttribute{Optional: true, Sensitive: true, MarkdownDescription: "A bearer token, in the place of `username` and `password`."},
					"ca_certificate": schema.StringAttribute{Optional: true, MarkdownDescription: "PEM certificates that are trusted beside those of the system."},
				}},
			},
		},
	}
}

// chartCredentialCheck refuses a credential that is half of one, or two.
type chartCredentialCheck struct{}

func (chartCredentialCheck) Description(context.Context) string {
	return "a user name with a password, or a token"
}

func (c chartCredentialCheck) MarkdownDescription(ctx context.Context) string {
	return c.Description(ctx)
}

func (chartCredentialCheck) ValidateObject(ctx context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	if hasUnknown(ctx, req.ConfigValue) {
		return
	}
	credential, set := objectAs[chartCredentialModel](ctx, req.ConfigValue)
	if !set {
		return
	}
	switch {
	case credential.Username.IsNull() != credential.Password.IsNull():
		resp.Diagnostics.AddAttributeError(req.Path, fmt.Sprintf("`%s` is half a credential", req.Path), "`username` and `password` belong together. Set both, or a `token`.")
	case !credential.Username.IsNull() && !credential.Token.IsNull():
		resp.Diagnostics.AddAttributeError(req.Path, fmt.Sprintf("`%s` has two credentials", req.Path), "A repository is asked with `username` and `password`, or with a `token`. Set one of them.")
	}
}

// charts fetches charts, and knows what of its own configuration is not known yet.
type charts struct {
	*chart.Source
	overrides map[string]string
	// unknown has a description of what is not known by the beginning of the URLs that it is about; "" is all of them.
	unknown map[string]string
}

// readCharts turns the `charts` argument into a source. What is not known yet is left out of it and remembered.
func readCharts(ctx context.Context, value types.Object, userAgent string) (*charts, diag.Diagnostics) {
	settings, unknown := chart.Settings{UserAgent: userAgent}, map[string]string{}
	var diagnostics diag.Diagnostics
	if model, set := objectAs[chartsModel](ctx, value); set {
		model.read(ctx, &settings, unknown, &diagnostics)
	} else if value.IsUnknown() {
		unknown[""] = "`charts`"
	}
	return &charts{Source: chart.NewSource(settings), overrides: settings.RepositoryOverrides, unknown: unknown}, diagnostics
}

func (m chartsModel) read(ctx context.Context, settings *chart.Settings, unknown map[string]string, diagnostics *diag.Diagnostics) {
	if hasUnknown(ctx, m.RepositoryOverrides) {
		unknown[""] = "`charts.repository_overrides`"
	} else {
		settings.RepositoryOverrides = stringMap(ctx, m.RepositoryOverrides)
	}
	if m.CacheDir.IsUnknown() {
		unknown[""] = "`charts.cache_dir`"
	}
	dir, err := fromHome(m.CacheDir.ValueString())
	if err != nil {
		diagnostics.AddAttributeError(path.Root("charts").AtName("cache_dir"), "The folder for charts cannot be found", fmt.Sprintf("%s. Write the path without a leading ~.", err))
	}
	settings.CacheDir = dir
	if m.Credentials.IsUnknown() {
		unknown[""] = "`charts.credentials`"
	}
	settings.Credentials = map[string]chart.Credential{}
	for prefix, element := range m.Credentials.Elements() {
		if hasUnknown(ctx, element) {
			unknown[prefix] = fmt.Sprintf("`charts.credentials[%q]`", prefix)
			continue
		}
		credential, _ := objectAs[chartCredentialModel](ctx, element)
		settings.Credentials[prefix] = chart.Credential{
			Username: credential.Username.ValueString(), Password: credential.Password.ValueString(),
			Token: credential.Token.ValueString(), CACertificate: credential.CACertificate.ValueString(),
		}
	}
}

// load gives a chart. missing names what has to be known first, where the chart is not in the cache either.
func (c *charts) load(ctx context.Context, ref chart.Ref) (loaded chart.Chart, missing string, err error) {
	if missing = c.missing(ref); missing != "" {
		loaded, cached, err := c.Cached(ref)
		if cached || err != nil {
			return loaded, "", err
		}
		return chart.Chart{}, missing, nil
	}
	loaded, err = c.Load(ctx, ref)
	return loaded, "", err
}

// missing is what of the configuration a chart's repository needs and is not known.
func (c *charts) missing(ref chart.Ref) string {
	if ref.Path != "" {
		return ""
	}
	repository := ref.Repository
	if other, overridden := c.overrides[repository]; overridden {
		repository = other
	}
	for prefix, what := range c.unknown {
		if strings.HasPrefix(repository, prefix) {
			return what
		}
	}
	return ""
}

// fromHome puts the home folder in the place of a leading ~.
func fromHome(dir string) (string, error) {
	rest, below := strings.CutPrefix(dir, "~")
	if !below || rest != "" && !strings.HasPrefix(rest, "/") {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, rest), nil
}
