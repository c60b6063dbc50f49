#!/usr/bin/env bash
# The main jobs on real control planes: check a shared cluster, put an instance on it, let it drift, repair it, import
# it, refuse what must not be; make a second cluster one for functions, with Knative Serving, and upgrade it; register it
# with the Argo CD of the first; and take all of it apart. `make demo` builds what this needs and runs it.
#
#   DEMO_KEEP=1   leave the clusters up at the end and say how to go on
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/.bin
tofu=${BERTH_TOFU:-$bin/tofu}
work=$(mktemp -d "${TMPDIR:-/tmp}/berth-demo.XXXXXX")
fleet_pid=

bold=""; plain=""
if [[ -t 1 && -z ${NO_COLOR:-} ]]; then bold=$'\e[1m'; plain=$'\e[0m'; fi
color=(); [[ -t 1 && -z ${NO_COLOR:-} ]] || color=(-no-color)

stop() {
  [[ -n $fleet_pid ]] && kill "$fleet_pid" 2>/dev/null && wait "$fleet_pid" 2>/dev/null
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT TERM

step() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }

# run ARGS...: the runner in the demo's folder, without the banner that development overrides bring.
run() { "$tofu" -chdir="$here" "$@" "${color[@]}" 2>&1 | sed -e '/^.*Provider development overrides/,/published$/d' -e '/^.*releases\.$/d' -e '/You didn.t use the -out option/,/now\.$/d' -e 's/^[─]*$//' | cat -s; }

# must NAME EXPECTED-EXIT-CODE ARGS...: asserts what a command ends with, so that the demo cannot end well by luck.
must() {
  local what=$1 want=$2 code=0
  shift 2
  "$tofu" -chdir="$here" "$@" "${color[@]}" >"$work/last.log" 2>&1 || code=$?
  if [[ $code != "$want" ]]; then
    cat "$work/last.log"
    echo "demo: $what: expected exit code $want, got $code" >&2
    exit 1
  fi
}

# shows TEXT: asserts that what the last command printed has it.
shows() { grep -qF -- "$1" "$work/last.log" || { cat "$work/last.log"; echo "demo: expected: $1" >&2; exit 1; }; }

# change: the change of the last plan, without what is known only after the apply.
change() { sed -n '/will be \(created\|updated in-place\)/,/^Plan:/p' "$work/last.log" | sed -e '/(known after apply)/d' -e '/- \(message\|reason\|status\) /d' -e '/^ *- "[A-Z][A-Za-z]*" = {$/d' -e '/^ *},$/d' -e '/~ \(conditions\|external_address\) *= {$/d'; }

# The steps that a plan of Serving tells in its warning.
steps() { sed -n -E 's/^[^0-9a-zA-Z]*([0-9]+\. [a-z].*)/  \1/p' "$work/last.log"; }

step "Booting two clusters: shared, with amd64, arm64 and s390x nodes and a tainted pool for sandboxes; and eu-1"
"$bin/fleet" up -dir "$work/fleet" -clusters shared,eu-1 -engines argocd@shared,knative@eu-1 -charts "$work/charts" \
  -node cluster=shared,name=amd -node cluster=shared,name=arm,arch=arm64 -node cluster=shared,name=s390,arch=s390x \
  -node cluster=shared,name=agents-1,label=pool=agents,taint=pool=agents:NoSchedule,cpu=16,memory=64Gi \
  -node cluster=eu-1,name=eu-node-1,cpu=32,memory=128Gi,pods=250 >"$work/fleet.log" 2>&1 &
fleet_pid=$!
for _ in $(seq 1200); do
  [[ -s $work/fleet/kubeconfig ]] && break
  kill -0 "$fleet_pid" 2>/dev/null || { cat "$work/fleet.log"; exit 1; }
  read -rt 0.1 <> <(:) || true
done
kubeconfig=$work/fleet/kubeconfig
on=shared
kubectl() { "$bin/kubectl" --kubeconfig "$kubeconfig" --context "$on" "$@"; }
kubectl get nodes -L kubernetes.io/arch,pool

here=$work/first
mkdir -p "$here" "$work/second" "$work/serving" "$work/registered"
cp "$root/examples/demo/main.tf" "$here/"
cat >"$work/runner.rc" <<RC
provider_installation {
  dev_overrides { "berthdev/berth" = "$bin" }
  direct {}
}
RC
export TF_CLI_CONFIG_FILE=$work/runner.rc TF_VAR_kubeconfig_path=$kubeconfig TF_IN_AUTOMATION=1 CHECKPOINT_DISABLE=1
export TF_VAR_context=eu-1 TF_VAR_charts=$work/charts

step "The plan: nothing is touched, everything is checked"
must "a plan" 0 plan -out=plan.bin
run show plan.bin

step "The preflight report"
run apply plan.bin >"$work/apply.log"
run output -raw preflight

step "The apply"
cat "$work/apply.log"
kubectl get priorityclass batch-low berth-control
kubectl get configmap -n my-instance berth-instance -o jsonpath='{.data.platforms}{"\n"}{.data.sizes\.json}{"\n"}'

step "A second plan is empty"
must "the second plan" 0 plan -detailed-exitcode
echo "No changes."

step "The cluster's owner puts a quota on the namespace; somebody edits the registry and deletes a PriorityClass by hand"
kubectl apply -n my-instance -f "$root/examples/demo/quota.yaml"
kubectl patch configmap -n my-instance berth-instance --type merge -p '{"data":{"registry":"registry.example.com/someone-else"}}'
kubectl delete priorityclass berth-control

step "The plan shows exactly that, field by field, and that the size exceeds the quota"
must "the plan after the drift" 2 plan -detailed-exitcode -out=plan.bin
run show plan.bin
run plan | grep -A6 -i "warning.*quota" || true

step "The apply repairs exactly that"
run apply plan.bin
must "the plan after the repair" 0 plan -detailed-exitcode
kubectl get priorityclass berth-control

step "Import into a fresh state: the plan is empty"
here=$work/second
cp "$root/examples/demo/main.tf" "$here/"
must "importing the class" 0 import berth_priority_class.sandbox shared/batch-low
must "importing the instance" 0 import berth_instance.this shared/my-instance
# Outputs are new in a fresh state; a refresh-only apply writes them, and touches nothing.
must "writing the outputs" 0 apply -refresh-only -auto-approve
must "the plan after the import" 0 plan -detailed-exitcode
echo "Imported shared/batch-low and shared/my-instance. No changes."

step "A configuration that must be refused: another instance in the same namespace"
here=$work/first
cp "$root/examples/demo/refused.tf.example" "$here/refused.tf"
must "the refused plan" 1 plan
run plan | sed -n '/Error/,$p' || true
rm "$here/refused.tf"

step "The second cluster, eu-1, gets Knative Serving: the real operator, and Traefik as its ingress. The plan has the steps"
here=$work/serving on=eu-1
cp "$root/examples/demo/serving/main.tf" "$here/"
export TF_VAR_serving_version=1.14
must "the plan of Serving" 0 plan
change
steps
kubectl get namespaces

step "The apply: each step waits until its part is ready"
must "the apply of Serving" 0 apply -auto-approve
sed -n '/^Outputs:/,$p' "$work/last.log"
kubectl get knativeserving -n knative-serving
kubectl get service traefik -n knative-serving
must "the second plan of Serving" 0 plan -detailed-exitcode
echo "A second plan: no changes."

step "Somebody hands Serving to another ingress, and opens Traefik's load balancer to the world"
kubectl patch knativeserving knative-serving -n knative-serving --type merge -p '{"spec":{"config":{"network":{"ingress-class":"other.example.com"}}}}'
kubectl annotate service traefik -n knative-serving --overwrite example.com/load-balancer=public
must "the plan after the drift of Serving" 2 plan -detailed-exitcode
shows "other.example.com → traefik.ingress.networking.knative.dev"
shows "public → internal"
change
must "the repair of Serving" 0 apply -auto-approve
must "the plan after the repair of Serving" 0 plan -detailed-exitcode
echo "Applied: both are as configured again. No changes."

step "An upgrade goes one minor version at a time: what skips one is refused, the next one has its own steps"
must "the skipped version" 1 plan -var serving_version=1.17
sed -n '/Error/,$p' "$work/last.log"
export TF_VAR_serving_version=1.15
must "the plan of the upgrade" 0 plan
change
steps
must "the upgrade" 0 apply -auto-approve
sed -n '/^Outputs:/,$p' "$work/last.log"
shows "Serving 1.15.2 of operator 1.15.2: ready"

step "A repository, from which the Argo CD on shared will deploy to eu-1"
gitops=$work/gitops
mkdir -p "$gitops/registry/clusters/eu-1/components" "$gitops/apps/greeting"
sed "s|REPOSITORY|file://$gitops|" "$root/examples/demo/registered/gitops/greeting.yaml" >"$gitops/registry/clusters/eu-1/components/greeting.yaml"
cp "$root/examples/demo/registered/gitops/config.yaml" "$gitops/apps/greeting/"
commit() {
  git -C "$gitops" add -A
  git -C "$gitops" -c user.name=demo -c user.email=demo@example.com -c commit.gpgsign=false commit -q -m "$1"
}
git init -q "$gitops" && git -C "$gitops" symbolic-ref HEAD refs/heads/main && commit "greeting"

step "eu-1 is registered: a ServiceAccount whose token lasts, Argo CD's Secret, a kubeconfig, and a root Application"
here=$work/registered on=shared
cp "$root/examples/demo/registered/main.tf" "$here/"
export TF_VAR_repo_url=file://$gitops
must "the registration" 0 apply -auto-approve
kubectl get secret -n argocd cluster-eu-1 -L tier,argocd.argoproj.io/secret-type
kubectl wait -n argocd application/registry-eu-1 --for=jsonpath='{.status.sync.status}'=Synced --timeout=2m
for _ in $(seq 600); do kubectl get application -n argocd greeting >/dev/null 2>&1 && break; read -rt 0.2 <> <(:) || true; done
kubectl wait -n argocd application/greeting --for=jsonpath='{.status.sync.status}'=Synced --timeout=2m
on=eu-1
kubectl get configmap greeting -o jsonpath='{.data.text}{"\n"}'
must "the plan after the registration" 0 plan -detailed-exitcode
run output

step "The token's Secret is deleted behind berth's back, which cuts Argo CD off: the plan shows it, the apply mends it"
kubectl delete secret -n kube-system berth-token
must "the plan after the revocation" 2 plan -detailed-exitcode
shows "the token was revoked"
must "the repair of the registration" 0 apply -auto-approve
must "the plan after the repair of the registration" 0 plan -detailed-exitcode
echo "Applied. No changes."

if [[ -n ${DEMO_KEEP:-} ]]; then
  step "The clusters stay up until Ctrl-C. To go on, in another terminal:"
  cat <<GO
  export TF_CLI_CONFIG_FILE=$TF_CLI_CONFIG_FILE TF_VAR_kubeconfig_path=$kubeconfig
  export TF_VAR_context=eu-1 TF_VAR_charts=$work/charts TF_VAR_serving_version=1.15 TF_VAR_repo_url=file://$gitops
  cd $work/first && $tofu plan    # or $work/serving or $work/registered
  $bin/kubectl --kubeconfig $kubeconfig --context shared get all -A    # or eu-1
GO
  wait "$fleet_pid"
  exit
fi

step "The removal of eu-1: refused while it is protected, then in order, and the plan says what goes"
here=$work/registered on=eu-1
must "the destroy that is refused for the protection" 1 destroy -auto-approve
sed -n '/Error/,$p' "$work/last.log"
export TF_VAR_deletion_protection=false
must "lifting the protection" 0 apply -auto-approve
must "the plan of the removal" 0 plan -destroy
sed -n '/Warning/,$p' "$work/last.log"
must "the removal" 0 destroy -auto-approve
left=$(kubectl get configmap greeting -o name --ignore-not-found)$(kubectl --context shared get applications,secrets -n argocd -o name | grep -E "eu-1|greeting" || true)
[[ -z $left ]] || { echo "demo: left behind: $left" >&2; exit 1; }
echo "Argo CD has forgotten eu-1, and nothing that it deployed is left."

step "The destroy of Serving: in order, and refused while something runs on it"
here=$work/serving on=eu-1
kubectl apply -f "$root/examples/demo/serving/hello.yaml"
must "the destroy that is refused for a Knative Service" 1 destroy -auto-approve
sed -n '/Error/,$p' "$work/last.log"
kubectl delete -f "$root/examples/demo/serving/hello.yaml"
must "the destroy of Serving" 0 destroy -auto-approve
grep -E "Destr|stay" "$work/last.log" || true
left=$(kubectl get namespaces,ingressclasses,clusterroles,deployments -A -o name | grep -E "knative|traefik" || true)
[[ -z $left ]] || { echo "demo: left behind: $left" >&2; exit 1; }
kubectl get namespaces

step "The destroy of the instance: ours goes, what is not ours is named first"
here=$work/first on=shared
must "the plan that finds the owner's quota" 0 plan -destroy
run plan -destroy | sed -n '/Warning/,$p' || true
must "the destroy that is refused" 1 destroy -auto-approve
sed -n '/Error/,$p' "$work/last.log"
kubectl delete resourcequota -n my-instance team-quota
must "the destroy" 0 destroy -auto-approve
grep -E "Destr|stays" "$work/last.log" || true
left=$(kubectl get namespaces,priorityclasses -l app.kubernetes.io/managed-by=berth -o name)
[[ -z $left ]] || { echo "demo: left behind: $left" >&2; exit 1; }
kubectl get namespaces

step "The demo ended well"
