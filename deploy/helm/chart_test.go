// Package helm tests the chart turnstile: Helm's engine renders it, and Kubernetes' types decode it strictly. No
// cluster has run it here.
package helm

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"turnstile/internal/program/config"
)

const folder = "turnstile"

type values = map[string]any

// full has everything that is off by default.
var full = values{
	"destinations": true, "metrics": true,
	"workers": values{
		"default": values{"workspace": "work", "env": values{"TURNSTILE_AGENT": "model", "TURNSTILE_MODEL": "m", "TURNSTILE_MESSAGE_BYTES": 4194304}},
		"coder": values{
			"image": values{"repository": "turnstile-agents"}, "slots": 4, "drainSeconds": 600, "graceSeconds": 20,
			"autoscaling": values{"enabled": true, "min": 1, "max": 40, "agent": "co.der"}, "envFrom": []any{values{"secretRef": values{"name": "keys"}}},
			"nodeSelector": values{"pool": "agents"}, "tolerations": []any{values{"key": "agents", "operator": "Exists"}},
		},
	},
	"gateway":       values{"ingress": values{"enabled": true, "className": "nginx", "host": "chat.example.com", "tlsSecret": "tls"}},
	"networkPolicy": values{"monitoring": []any{values{"namespaceSelector": values{}}}},
}

// scaled is KEDA's ScaledObject and TriggerAuthentication, as far as the chart uses them.
type scaled struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount int            `json:"minReplicaCount"`
		MaxReplicaCount int            `json:"maxReplicaCount"`
		PollingInterval int            `json:"pollingInterval"`
		Advanced        map[string]any `json:"advanced"`
		SecretTargetRef []any          `json:"secretTargetRef"`
		Triggers        []struct {
			Type              string            `json:"type"`
			MetricType        string            `json:"metricType"`
			Metadata          map[string]string `json:"metadata"`
			AuthenticationRef map[string]string `json:"authenticationRef"`
		} `json:"triggers"`
	} `json:"spec"`
}

// rendered reads the values from YAML, as Helm reads those of a user's file.
func rendered(c *chart.Chart, v values) (map[string]string, error) {
	text, err := yaml.Marshal(v)
	if err != nil {
		return nil, err
	}
	read, err := chartutil.ReadValues(text)
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(c, read, chartutil.ReleaseOptions{Name: "chat", Namespace: "bots"}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// render returns the objects by "Kind/name".
func render(t *testing.T, v values) map[string]any {
	t.Helper()
	c, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	files, err := rendered(c, v)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for text := range strings.SplitSeq(files[name], "\n---\n") {
			if strings.TrimSpace(text) == "" || !strings.HasSuffix(name, ".yaml") {
				continue
			}
			var head struct {
				Kind     string
				Metadata struct{ Name string }
			}
			if err := yaml.Unmarshal([]byte(text), &head); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			into, ok := map[string]any{
				"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
				"NetworkPolicy": &networkingv1.NetworkPolicy{}, "Ingress": &networkingv1.Ingress{}, "ScaledObject": &scaled{}, "TriggerAuthentication": &scaled{},
			}[head.Kind]
			if !ok {
				t.Fatalf("%s: unknown kind %q\n%s", name, head.Kind, text)
			}
			if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
				t.Errorf("%s: %v\n%s", name, err, text)
			}
			if key := head.Kind + "/" + head.Metadata.Name; objects[key] == nil {
				objects[key] = into
			} else {
				t.Errorf("%s twice", key)
			}
		}
	}
	return objects
}

func get[T any](t *testing.T, objects map[string]any, key string) T {
	t.Helper()
	o, ok := objects[key].(T)
	if !ok {
		t.Fatalf("no %s among %v", key, slices.Sorted(maps.Keys(objects)))
	}
	return o
}

func TestLint(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]values{"defaults": {}, "full": full} {
		for _, m := range lint.AllWithKubeVersion(folder, v, "bots", nil).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %s", name, m)
			}
		}
	}
}

func TestObjects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values values
		want   []string
	}{
		"defaults": {values{}, []string{
			"Deployment/chat-gateway", "Deployment/chat-worker-default", "NetworkPolicy/chat-gateway", "NetworkPolicy/chat-worker-default",
			"PodDisruptionBudget/chat-gateway", "PodDisruptionBudget/chat-worker-default", "Service/chat-gateway",
		}},
		"full": {full, []string{
			"Deployment/chat-gateway", "Deployment/chat-worker-coder", "Deployment/chat-worker-default", "Ingress/chat-gateway",
			"NetworkPolicy/chat-gateway", "NetworkPolicy/chat-worker-coder", "NetworkPolicy/chat-worker-default",
			"PodDisruptionBudget/chat-gateway", "PodDisruptionBudget/chat-worker-coder", "PodDisruptionBudget/chat-worker-default",
			"ScaledObject/chat-worker-coder", "Service/chat-gateway", "TriggerAuthentication/chat-worker-coder",
		}},
	} {
		if got := slices.Sorted(maps.Keys(render(t, c.values))); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// Each selector finds the pods of its Deployment, and no others.
func TestSelectors(t *testing.T) {
	t.Parallel()
	objects := render(t, full)
	for _, part := range []string{"gateway", "worker-default", "worker-coder"} {
		d := get[*appsv1.Deployment](t, objects, "Deployment/chat-"+part)
		labels := d.Spec.Template.Labels
		selectors := map[string]map[string]string{
			"Deployment":          d.Spec.Selector.MatchLabels,
			"PodDisruptionBudget": get[*policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget/chat-"+part).Spec.Selector.MatchLabels,
			"NetworkPolicy":       get[*networkingv1.NetworkPolicy](t, objects, "NetworkPolicy/chat-"+part).Spec.PodSelector.MatchLabels,
			"spread":              d.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
		}
		if part == "gateway" {
			selectors["Service"] = get[*corev1.Service](t, objects, "Service/chat-gateway").Spec.Selector
		}
		for kind, selector := range selectors {
			if len(selector) != 3 || selector["app.kubernetes.io/component"] != part {
				t.Errorf("%s of %s selects %v", kind, part, selector)
			}
			for key, value := range selector {
				if labels[key] != value {
					t.Errorf("%s of %s selects %s=%s, and the pods have %v", kind, part, key, value, labels)
				}
			}
		}
	}
}

func env(t *testing.T, d *appsv1.Deployment) map[string]corev1.EnvVar {
	t.Helper()
	vars := map[string]corev1.EnvVar{}
	for _, v := range d.Spec.Template.Spec.Containers[0].Env {
		if vars[v.Name].Name != "" {
			t.Errorf("%s twice in %s", v.Name, d.Name)
		}
		vars[v.Name] = v
	}
	return vars
}

// A pod is killed only after its drain: the worker refuses to start where that would not fit.
func TestGracePeriods(t *testing.T) {
	t.Parallel()
	objects := render(t, full)
	for part, margin := range map[string]time.Duration{"worker-default": 5 * time.Second, "worker-coder": 5 * time.Second} {
		d := get[*appsv1.Deployment](t, objects, "Deployment/chat-"+part)
		vars := env(t, d)
		grace := time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
		var parts time.Duration
		for _, name := range []string{"TURNSTILE_DRAIN_TIMEOUT", "TURNSTILE_INTERRUPT_GRACE"} {
			v, err := time.ParseDuration(vars[name].Value)
			if err != nil || v <= 0 {
				t.Fatalf("%s: %v", name, err)
			}
			parts += v
		}
		if stop, err := time.ParseDuration(vars["TURNSTILE_STOP_TIMEOUT"].Value); err != nil || stop != grace || stop < parts+margin {
			t.Errorf("%s: ends in %s, the worker believes %s, and needs %s", part, grace, stop, parts+margin)
		}
	}
	g := get[*appsv1.Deployment](t, objects, "Deployment/chat-gateway")
	drain, _ := time.ParseDuration(env(t, g)["TURNSTILE_GATEWAY_DRAIN_TIMEOUT"].Value)
	pause := time.Duration(g.Spec.Template.Spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
	if grace := time.Duration(*g.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second; drain <= 0 || grace <= pause+drain {
		t.Errorf("the gateway ends in %s, pauses for %s and drains for %s", grace, pause, drain)
	}
}

// The programs take the settings that their pods have. No secret stands in an object.
func TestSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"tokens.json": "[]", "destinations.json": "{}", "redis-url": "redis://127.0.0.1:6379/0"} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, v := range map[string]values{"defaults": {}, "full": full} {
		for key, o := range render(t, v) {
			d, ok := o.(*appsv1.Deployment)
			if !ok {
				continue
			}
			own := env(t, d)
			if _, set := own["TURNSTILE_AGENT"]; set && name == "defaults" {
				t.Errorf("%s: the chart says which agent runs, whatever the image says", key)
			}
			environ := []string{"TURNSTILE_AGENT=echo"} // the Dockerfile's ENV
			for name, v := range own {
				value := strings.Replace(v.Value, "/secrets/", dir+"/", 1)
				if regexp.MustCompile("^REDIS_URL$|TOKEN$|KEY$").MatchString(name) {
					if v.ValueFrom == nil || v.ValueFrom.SecretKeyRef == nil || v.Value != "" {
						t.Errorf("%s: %s is not from a Secret: %+v", key, name, v)
					}
					if value = strings.Repeat("x", 32); name == "REDIS_URL" {
						value = "redis://127.0.0.1:6379/0"
					}
				}
				environ = append(environ, name+"="+value)
			}
			var err error
			if strings.HasSuffix(key, "gateway") {
				_, err = config.LoadGateway(environ, config.Options{})
			} else {
				var w config.Worker
				if w, err = config.LoadWorker(environ, config.Options{}); name == "full" && key == "Deployment/chat-worker-default" && w.MessageBytes != 4<<20 {
					t.Errorf("a number of a values file: %d", w.MessageBytes)
				}
			}
			if err != nil {
				t.Errorf("%s: %s: %v", name, key, err)
			}
		}
	}
}

// No pod runs as root, writes outside of its volumes, or has a right of Kubernetes or Linux.
func TestPodsAreConfined(t *testing.T) {
	t.Parallel()
	for name, o := range render(t, full) {
		d, ok := o.(*appsv1.Deployment)
		if !ok {
			continue
		}
		pod := d.Spec.Template.Spec
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.SecurityContext.RunAsNonRoot == nil || !*pod.SecurityContext.RunAsNonRoot ||
			pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: %+v", name, pod.SecurityContext)
		}
		for _, c := range pod.Containers {
			s := c.SecurityContext
			if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || fmt.Sprint(s.Capabilities.Drop) != "[ALL]" {
				t.Errorf("%s: %s: %+v", name, c.Name, s)
			}
			if c.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s: %s has no limit of memory", name, c.Name)
			}
		}
	}
}

// Workers are not reached but for their metrics, and call Redis, names and HTTPS outside of private networks.
func TestNetwork(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]values{"defaults": {}, "full": full} {
		objects := render(t, v)
		p := get[*networkingv1.NetworkPolicy](t, objects, "NetworkPolicy/chat-worker-default")
		if want := map[string]int{"defaults": 0, "full": 1}[name]; len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Ingress) != want {
			t.Errorf("%s: workers can be reached: %+v", name, p.Spec.Ingress)
		}
		var ports []string
		for _, rule := range p.Spec.Egress {
			for _, port := range rule.Ports {
				ports = append(ports, port.Port.String())
			}
			for _, to := range rule.To {
				if to.IPBlock != nil && !slices.Contains(to.IPBlock.Except, "169.254.0.0/16") {
					t.Errorf("%s: workers reach the metadata of the cloud", name)
				}
			}
		}
		if got := strings.Join(ports, " "); got != "53 53 6379 443" {
			t.Errorf("%s: workers call ports %s", name, got)
		}
	}
}

// KEDA divides what the gateway says by the slots of one pod.
func TestAutoscaling(t *testing.T) {
	t.Parallel()
	objects := render(t, full)
	s := get[*scaled](t, objects, "ScaledObject/chat-worker-coder")
	d := get[*appsv1.Deployment](t, objects, "Deployment/"+s.Spec.ScaleTargetRef.Name)
	if d.Spec.Replicas != nil {
		t.Error("an upgrade would set the number of replicas")
	}
	of := s.Spec.Triggers[0].Metadata
	if of["targetValue"] != env(t, d)["TURNSTILE_CONCURRENCY"].Value || of["valueLocation"] != `agents.co\.der.wanted_slots` {
		t.Errorf("the trigger: %v", of)
	}
	service := get[*corev1.Service](t, objects, "Service/chat-gateway")
	if want := "http://chat-gateway.bots.svc:" + strconv.Itoa(int(service.Spec.Ports[0].Port)) + "/scale"; of["url"] != want {
		t.Errorf("it reads %s, want %s", of["url"], want)
	}
	get[*scaled](t, objects, "TriggerAuthentication/"+s.Spec.Triggers[0].AuthenticationRef["name"])
}

// An empty list of peers means nobody, which Kubernetes would read as everybody.
func TestEmptyPeersAreNobody(t *testing.T) {
	t.Parallel()
	none := []any{}
	objects := render(t, values{"metrics": true, "networkPolicy": values{
		"clients": none, "monitoring": none, "redis": values{"peers": none}, "dns": values{"peers": none}, "outside": values{"peers": none},
	}})
	for _, part := range []string{"gateway", "worker-default"} {
		p := get[*networkingv1.NetworkPolicy](t, objects, "NetworkPolicy/chat-"+part)
		if len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Ingress)+len(p.Spec.Egress) > 0 {
			t.Errorf("%s: %+v", part, p.Spec)
		}
	}
	objects = render(t, values{"networkPolicy": values{"outside": values{"ports": none}}})
	if p := get[*networkingv1.NetworkPolicy](t, objects, "NetworkPolicy/chat-worker-default"); len(p.Spec.Egress) != 2 {
		t.Errorf("without ports: %+v", p.Spec.Egress)
	}
}

// KEDA reaches the gateway where a worker autoscales.
func TestKEDAReachesTheGateway(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]values{"defaults": {}, "full": full} {
		p := get[*networkingv1.NetworkPolicy](t, render(t, v), "NetworkPolicy/chat-gateway")
		if want := map[string]int{"defaults": 1, "full": 2}[name]; len(p.Spec.Ingress[0].From) != want {
			t.Errorf("%s: %+v", name, p.Spec.Ingress)
		}
	}
}

// What cannot work is refused with a sentence.
func TestRefusals(t *testing.T) {
	t.Parallel()
	c, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	scales := values{"autoscaling": values{"enabled": true}}
	for want, v := range map[string]values{
		"the name under which clients reach the gateway":       {"gateway": values{"ingress": values{"enabled": true}}},
		"env may not have TURNSTILE_CONCURRENCY":               {"worker": values{"env": values{"TURNSTILE_CONCURRENCY": 3}}},
		"env may not have TURNSTILE_GATEWAY_ADDR":              {"gateway": values{"env": values{"TURNSTILE_GATEWAY_ADDR": ":1"}}},
		"only one of workers may autoscale by the load of all": {"workers": values{"a": scales, "b": scales}},
		"must be 1 or more where it names an agent":            {"worker": values{"autoscaling": values{"enabled": true, "min": 0, "agent": "a"}}},
	} {
		if _, err = rendered(c, v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
