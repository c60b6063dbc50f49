package provider

import (
	"context"
	"sort"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/berthdev/terraform-provider-berth/internal/instance"
)

type instanceModel struct {
	common
	Name            types.String `tfsdk:"name"`
	Namespace       types.String `tfsdk:"namespace"`
	KubernetesFloor types.String `tfsdk:"kubernetes_floor"`
	Registry        types.String `tfsdk:"registry"`
	KitRegistry     types.String `tfsdk:"kit_registry"`
	KitVersion      types.String `tfsdk:"kit_version"`
	SandboxImages   types.Map    `tfsdk:"sandbox_images"`
	Platforms       types.Set    `tfsdk:"platforms"`
	Sandbox         types.Object `tfsdk:"sandbox"`
	Sizes           types.Map    `tfsdk:"sizes"`
	PriorityClasses types.Object `tfsdk:"priority_classes"`
	RequiredSecrets types.List   `tfsdk:"required_secrets"`
	EnvFrom         types.List   `tfsdk:"env_from"`
	Env             types.Map    `tfsdk:"env"`
	GitCredentials  types.List   `tfsdk:"git_credentials"`
	Operator        types.Object `tfsdk:"operator"`
	Orchestrator    types.Object `tfsdk:"orchestrator"`
	RepoCache       types.Object `tfsdk:"repo_cache"`
	Preflight       types.Object `tfsdk:"preflight"`
	ForceDestroy    types.Bool   `tfsdk:"force_destroy"`
	RemoveOperator  types.Bool   `tfsdk:"remove_operator"`

	Context                  types.String `tfsdk:"context"`
	Server                   types.String `tfsdk:"server"`
	KubernetesVersion        types.String `tfsdk:"kubernetes_version"`
	CreatedNamespace         types.Bool   `tfsdk:"created_namespace"`
	NamespaceUID             types.String `tfsdk:"namespace_uid"`
	EffectivePlatforms       types.List   `tfsdk:"effective_platforms"`
	SkippedArchitectures     types.List   `tfsdk:"skipped_architectures"`
	SchedulableNodes         types.Int64  `tfsdk:"schedulable_nodes"`
	SandboxNodes             types.List   `tfsdk:"sandbox_nodes"`
	ExcludedNodes            types.List   `tfsdk:"excluded_nodes"`
	ImageRefs                types.Map    `tfsdk:"image_refs"`
	KitImages                types.Map    `tfsdk:"kit_images"`
	ContentHash              types.String `tfsdk:"content_hash"`
	EffectivePriorityClasses types.Object `tfsdk:"effective_priority_classes"`
	OperatorVersion          types.String `tfsdk:"operator_version"`
}

type secretRefModel struct {
	Name types.String `tfsdk:"name"`
	Keys types.List   `tfsdk:"keys"`
}

type secretKeyModel struct {
	Secret types.String `tfsdk:"secret"`
	Key    types.String `tfsdk:"key"`
}

type gitCredentialModel struct {
	Match        types.String    `tfsdk:"match"`
	Token        *secretKeyModel `tfsdk:"token"`
	SSHKeySecret types.String    `tfsdk:"ssh_key_secret"`
}

type sandboxModel struct {
	NodeSelector types.Map  `tfsdk:"node_selector"`
	Tolerations  types.List `tfsdk:"tolerations"`
}

type priorityClassesModel struct {
	Control types.String `tfsdk:"control"`
	Sandbox types.String `tfsdk:"sandbox"`
}

type operatorModel struct {
	Image       types.String `tfsdk:"image"`
	Version     types.String `tfsdk:"version"`
	Namespace   types.String `tfsdk:"namespace"`
	ClusterRole types.String `tfsdk:"cluster_role"`
}

type workloadModel struct {
	Image types.String `tfsdk:"image"`
}

type podTestsModel struct {
	ImagePull types.Bool   `tfsdk:"image_pull"`
	Endpoints types.List   `tfsdk:"endpoints"`
	Image     types.String `tfsdk:"image"`
}

type classModel struct {
	Name    types.String `tfsdk:"name"`
	Managed types.Bool   `tfsdk:"managed"`
}

// The object types of the model's nested values.
var (
	secretKeyType  = types.ObjectType{AttrTypes: map[string]attr.Type{"secret": types.StringType, "key": types.StringType}}
	secretRefType  = types.ObjectType{AttrTypes: map[string]attr.Type{"name": types.StringType, "keys": types.ListType{ElemType: types.StringType}}}
	gitType        = types.ObjectType{AttrTypes: map[string]attr.Type{"match": types.StringType, "token": secretKeyType, "ssh_key_secret": types.StringType}}
	sandboxType    = types.ObjectType{AttrTypes: map[string]attr.Type{"node_selector": types.MapType{ElemType: types.StringType}, "tolerations": types.ListType{ElemType: tolerationType}}}
	prioritiesType = types.ObjectType{AttrTypes: map[string]attr.Type{"control": types.StringType, "sandbox": types.StringType}}
	operatorType   = types.ObjectType{AttrTypes: map[string]attr.Type{"image": types.StringType, "version": types.StringType, "namespace": types.StringType, "cluster_role": types.StringType}}
	workloadType   = types.ObjectType{AttrTypes: map[string]attr.Type{"image": types.StringType}}
	podTestsType   = types.ObjectType{AttrTypes: map[string]attr.Type{"image_pull": types.BoolType, "endpoints": types.ListType{ElemType: types.StringType}, "image": types.StringType}}
	classType      = types.ObjectType{AttrTypes: map[string]attr.Type{"name": types.StringType, "managed": types.BoolType}}
	classesType    = types.ObjectType{AttrTypes: map[string]attr.Type{"control": classType, "sandbox": classType}}
	excludedType   = types.ObjectType{AttrTypes: map[string]attr.Type{"name": types.StringType, "reason": types.StringType}}
)

// arguments are the values of which the Spec is made.
func (m *instanceModel) arguments() []attr.Value {
	return []attr.Value{
		m.Name, m.Namespace, m.KubernetesFloor, m.Registry, m.KitRegistry, m.KitVersion, m.SandboxImages, m.Platforms, m.Sandbox, m.Sizes,
		m.PriorityClasses, m.RequiredSecrets, m.EnvFrom, m.Env, m.GitCredentials, m.Operator, m.Orchestrator, m.RepoCache,
	}
}

// known tells whether all arguments are.
func (m *instanceModel) known(ctx context.Context) bool {
	for _, argument := range m.arguments() {
		if hasUnknown(ctx, argument) {
			return false
		}
	}
	return true
}

// spec is the instance that the model describes; platforms are those in use. Every argument is known.
func (m *instanceModel) spec(ctx context.Context, platforms []string) instance.Spec {
	spec := instance.Spec{
		Name: m.Name.ValueString(), Namespace: m.Namespace.ValueString(), KubernetesFloor: m.KubernetesFloor.ValueString(),
		Registry: m.Registry.ValueString(), KitRegistry: m.KitRegistry.ValueString(), KitVersion: m.KitVersion.ValueString(),
		SandboxImages: stringMap(ctx, m.SandboxImages), Platforms: platforms, Derived: m.Platforms.IsNull(),
		RemoveOperator: m.RemoveOperator.ValueBool(),
	}
	if !m.Platforms.IsNull() {
		spec.Platforms = m.platforms(ctx)
	}
	m.fillPlacement(ctx, &spec)
	m.fillSecrets(ctx, &spec)
	m.fillComponents(ctx, &spec)
	return spec
}

func (m *instanceModel) platforms(ctx context.Context) []string {
	var platforms []string
	m.Platforms.ElementsAs(ctx, &platforms, false)
	sort.Strings(platforms)
	return platforms
}

func (m *instanceModel) fillPlacement(ctx context.Context, spec *instance.Spec) {
	if sandbox, set := objectAs[sandboxModel](ctx, m.Sandbox); set {
		placement := placementOf(ctx, "sandbox", sandbox.NodeSelector, sandbox.Tolerations)
		spec.PlacementSet, spec.NodeSelector, spec.Tolerations = true, placement.NodeSelector, placement.Tolerations
	}
	if !m.Sizes.IsNull() {
		spec.Sizes = map[string]instance.Size{}
		for name, value := range m.Sizes.Elements() {
			if size, set := objectAs[sizeModel](ctx, value); set {
				spec.Sizes[name] = instance.Size{Memory: size.Memory.ValueString(), CPU: size.CPU.ValueString()}
			}
		}
	}
	if classes, set := objectAs[priorityClassesModel](ctx, m.PriorityClasses); set {
		spec.PrioritySet, spec.Control, spec.Sandbox = true, classes.Control.ValueString(), classes.Sandbox.ValueString()
	}
}

func (m *instanceModel) fillSecrets(ctx context.Context, spec *instance.Spec) {
	if !m.RequiredSecrets.IsNull() {
		spec.RequiredSecrets = []instance.SecretRef{}
		for _, value := range m.RequiredSecrets.Elements() {
			if ref, set := objectAs[secretRefModel](ctx, value); set {
				spec.RequiredSecrets = append(spec.RequiredSecrets, instance.SecretRef{Name: ref.Name.ValueString(), Keys: stringList(ctx, ref.Keys)})
			}
		}
	}
	spec.EnvFrom = stringList(ctx, m.EnvFrom)
	if !m.Env.IsNull() {
		spec.Env = map[string]instance.SecretKey{}
		for name, value := range m.Env.Elements() {
			if key, set := objectAs[secretKeyModel](ctx, value); set {
				spec.Env[name] = key.domain()
			}
		}
	}
	if !m.GitCredentials.IsNull() {
		spec.GitCredentials = []instance.GitCredential{}
		for _, value := range m.GitCredentials.Elements() {
			if git, set := objectAs[gitCredentialModel](ctx, value); set {
				credential := instance.GitCredential{Match: git.Match.ValueString(), SSHKeySecret: git.SSHKeySecret.ValueString()}
				if git.Token != nil {
					token := git.Token.domain()
					credential.Token = &token
				}
				spec.GitCredentials = append(spec.GitCredentials, credential)
			}
		}
	}
}

func (m *instanceModel) fillComponents(ctx context.Context, spec *instance.Spec) {
	if operator, set := objectAs[operatorModel](ctx, m.Operator); set {
		spec.Operator = &instance.Operator{
			Image: operator.Image.ValueString(), Version: operator.Version.ValueString(),
			Namespace: operator.Namespace.ValueString(), ClusterRole: operator.ClusterRole.ValueString(),
		}
	}
	if workload, set := objectAs[workloadModel](ctx, m.Orchestrator); set {
		spec.Orchestrator = &instance.Workload{Image: workload.Image.ValueString()}
	}
	if workload, set := objectAs[workloadModel](ctx, m.RepoCache); set {
		spec.RepoCache = &instance.Workload{Image: workload.Image.ValueString()}
	}
}

func (m *instanceModel) tests(ctx context.Context) instance.Tests {
	tests, set := objectAs[podTestsModel](ctx, m.Preflight)
	if !set {
		return instance.Tests{}
	}
	return instance.Tests{ImagePull: tests.ImagePull.ValueBool(), Endpoints: stringList(ctx, tests.Endpoints), Image: tests.Image.ValueString()}
}

func (k secretKeyModel) domain() instance.SecretKey {
	return instance.SecretKey{Secret: k.Secret.ValueString(), Key: k.Key.ValueString()}
}

// setArguments fills the arguments from a Spec that was read from the cluster, for an import.
func (m *instanceModel) setArguments(ctx context.Context, spec instance.Spec) {
	m.Namespace, m.KubernetesFloor = types.StringValue(spec.Namespace), types.StringValue(spec.KubernetesFloor)
	m.Registry, m.KitRegistry, m.KitVersion = optionalString(spec.Registry), optionalString(spec.KitRegistry), optionalString(spec.KitVersion)
	m.SandboxImages = mapValue(ctx, types.StringType, spec.SandboxImages)
	m.Platforms = types.SetNull(types.StringType)
	if !spec.Derived {
		m.Platforms, _ = types.SetValueFrom(ctx, types.StringType, spec.Platforms)
	}
	m.EffectivePlatforms, _ = types.ListValueFrom(ctx, types.StringType, spec.Platforms)
	m.Sandbox = types.ObjectNull(sandboxType.AttrTypes)
	if spec.PlacementSet {
		sandbox := sandboxModel{NodeSelector: mapValue(ctx, types.StringType, spec.NodeSelector), Tolerations: types.ListNull(tolerationType)}
		if spec.Tolerations != nil {
			tolerations := []tolerationModel{}
			for _, one := range spec.Tolerations {
				tolerations = append(tolerations, tolerationModel{
					Key: optionalString(one.Key), Operator: optionalString(one.Operator), Value: optionalString(one.Value), Effect: optionalString(one.Effect),
				})
			}
			sandbox.Tolerations = listValue(ctx, tolerationType, tolerations)
		}
		m.Sandbox, _ = types.ObjectValueFrom(ctx, sandboxType.AttrTypes, sandbox)
	}
	var sizes map[string]sizeModel
	if spec.Sizes != nil {
		sizes = map[string]sizeModel{}
		for name, size := range spec.Sizes {
			sizes[name] = sizeModel{Memory: types.StringValue(size.Memory), CPU: types.StringValue(size.CPU)}
		}
	}
	m.Sizes = mapValue(ctx, sizeType, sizes)
	m.PriorityClasses = types.ObjectNull(prioritiesType.AttrTypes)
	if spec.PrioritySet {
		m.PriorityClasses, _ = types.ObjectValueFrom(ctx, prioritiesType.AttrTypes, priorityClassesModel{Control: optionalString(spec.Control), Sandbox: optionalString(spec.Sandbox)})
	}
	m.setSecrets(ctx, spec)
	m.setComponents(ctx, spec)
}

func (m *instanceModel) setSecrets(ctx context.Context, spec instance.Spec) {
	var refs []secretRefModel
	for _, ref := range spec.RequiredSecrets {
		refs = append(refs, secretRefModel{Name: types.StringValue(ref.Name), Keys: listValue(ctx, types.StringType, ref.Keys)})
	}
	if spec.RequiredSecrets != nil && refs == nil {
		refs = []secretRefModel{}
	}
	m.RequiredSecrets = listValue(ctx, secretRefType, refs)
	m.EnvFrom = listValue(ctx, types.StringType, spec.EnvFrom)
	var env map[string]secretKeyModel
	if spec.Env != nil {
		env = map[string]secretKeyModel{}
		for name, key := range spec.Env {
			env[name] = secretKeyModel{Secret: types.StringValue(key.Secret), Key: types.StringValue(key.Key)}
		}
	}
	m.Env = mapValue(ctx, secretKeyType, env)
	var git []gitCredentialModel
	if spec.GitCredentials != nil {
		git = []gitCredentialModel{}
	}
	for _, one := range spec.GitCredentials {
		credential := gitCredentialModel{Match: types.StringValue(one.Match), SSHKeySecret: optionalString(one.SSHKeySecret)}
		if one.Token != nil {
			credential.Token = &secretKeyModel{Secret: types.StringValue(one.Token.Secret), Key: types.StringValue(one.Token.Key)}
		}
		git = append(git, credential)
	}
	m.GitCredentials = listValue(ctx, gitType, git)
}

func (m *instanceModel) setComponents(ctx context.Context, spec instance.Spec) {
	m.Operator = types.ObjectNull(operatorType.AttrTypes)
	if one := spec.Operator; one != nil {
		m.Operator, _ = types.ObjectValueFrom(ctx, operatorType.AttrTypes, operatorModel{
			Image: types.StringValue(one.Image), Version: types.StringValue(one.Version),
			Namespace: types.StringValue(one.Namespace), ClusterRole: optionalString(one.ClusterRole),
		})
	}
	workload := func(one *instance.Workload) types.Object {
		if one == nil {
			return types.ObjectNull(workloadType.AttrTypes)
		}
		value, _ := types.ObjectValueFrom(ctx, workloadType.AttrTypes, workloadModel{Image: types.StringValue(one.Image)})
		return value
	}
	m.Orchestrator, m.RepoCache = workload(spec.Orchestrator), workload(spec.RepoCache)
	m.Preflight = types.ObjectNull(podTestsType.AttrTypes)
	m.ForceDestroy, m.RemoveOperator = types.BoolValue(false), types.BoolValue(false)
}

// setDerived fills the outputs that follow from the Spec alone, which a plan knows as soon as it knows the arguments.
func (m *instanceModel) setDerived(ctx context.Context, spec instance.Spec) {
	class := func(one instance.Class) classModel {
		return classModel{Name: types.StringValue(one.Name), Managed: types.BoolValue(one.Managed)}
	}
	m.EffectivePlatforms = listValue(ctx, types.StringType, spec.Platforms)
	m.ImageRefs = mapValue(ctx, types.StringType, spec.ImageRefs())
	m.KitImages = mapValue(ctx, types.StringType, spec.KitImages())
	m.ContentHash = types.StringValue(spec.ContentHash())
	classes := spec.Classes()
	m.EffectivePriorityClasses, _ = types.ObjectValueFrom(ctx, classesType.AttrTypes, struct {
		Control classModel `tfsdk:"control"`
		Sandbox classModel `tfsdk:"sandbox"`
	}{class(classes.Control), class(classes.Sandbox)})
}

// setObserved fills the outputs that are seen on the cluster.
func (m *instanceModel) setObserved(ctx context.Context, seen instance.Observation) {
	m.KubernetesVersion = types.StringValue(seen.KubernetesVersion)
	m.OperatorVersion = optionalString(seen.OperatorVersion)
	m.setNodes(ctx, seen.NodesSeen)
	conditions := map[string]condition{}
	for _, one := range seen.Conditions {
		status := "False"
		if one.Good {
			status = "True"
		}
		conditions[one.Type] = condition{Status: status, Reason: one.Reason, Message: one.Message}
	}
	m.setConditions(ctx, conditions)
}

// setNodes fills the outputs that are seen on the nodes.
func (m *instanceModel) setNodes(ctx context.Context, seen instance.NodesSeen) {
	m.SkippedArchitectures, m.SandboxNodes = types.ListNull(types.StringType), types.ListNull(types.StringType)
	m.ExcludedNodes, m.SchedulableNodes = types.ListNull(excludedType), types.Int64Null()
	if seen.NodesRead {
		m.SchedulableNodes = types.Int64Value(int64(seen.SchedulableNodes))
		m.SandboxNodes = listValue(ctx, types.StringType, append([]string{}, seen.SandboxNodes...))
		m.SkippedArchitectures = listValue(ctx, types.StringType, append([]string{}, seen.SkippedArchitectures...))
		excluded := []struct {
			Name   string `tfsdk:"name"`
			Reason string `tfsdk:"reason"`
		}{}
		for _, one := range seen.ExcludedNodes {
			excluded = append(excluded, struct {
				Name   string `tfsdk:"name"`
				Reason string `tfsdk:"reason"`
			}(one))
		}
		m.ExcludedNodes = listValue(ctx, excludedType, excluded)
	}
}

// objectAs decodes an object; set is false for null and unknown ones.
func objectAs[T any](ctx context.Context, value attr.Value) (decoded T, set bool) {
	object, ok := value.(types.Object)
	if !ok || object.IsNull() || object.IsUnknown() {
		return decoded, false
	}
	// The object's type is that of the schema, so the conversion cannot fail.
	object.As(ctx, &decoded, basetypes.ObjectAsOptions{})
	return decoded, true
}

// listValue and mapValue turn Go values into Terraform's; nil is null. The types are the schema's own, so the
// conversions cannot fail.
func listValue[T any](ctx context.Context, element attr.Type, values []T) types.List {
	if values == nil {
		return types.ListNull(element)
	}
	value, _ := types.ListValueFrom(ctx, element, values)
	return value
}

func mapValue[T any](ctx context.Context, element attr.Type, values map[string]T) types.Map {
	if values == nil {
		return types.MapNull(element)
	}
	value, _ := types.MapValueFrom(ctx, element, values)
	return value
}

func stringList(ctx context.Context, list types.List) []string {
	if list.IsNull() || list.IsUnknown() {
		return nil
	}
	values := []string{}
	list.ElementsAs(ctx, &values, false)
	return values
}

func stringMap(ctx context.Context, values types.Map) map[string]string {
	if values.IsNull() || values.IsUnknown() {
		return nil
	}
	decoded := map[string]string{}
	values.ElementsAs(ctx, &decoded, false)
	return decoded
}
