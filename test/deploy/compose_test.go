// Package deploy tests that docker-compose.yml, the Dockerfile and the program agree. It has no
// code, and needs no Docker engine.
package deploy

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"turnstile/internal/http/gateway"
	"turnstile/internal/program/config"
	"turnstile/internal/protocol/wire"
	"turnstile/test/expect"
)

const root = "../.."

type compose struct {
	Services map[string]service `yaml:"services"`
	Volumes  map[string]any     `yaml:"volumes"`
	Networks map[string]struct {
		Internal bool `yaml:"internal"`
	} `yaml:"networks"`
	Configs map[string]struct {
		File string `yaml:"file"`
	} `yaml:"configs"`
}

type service struct {
	Image           string    `yaml:"image"`
	Build           *build    `yaml:"build"`
	PullPolicy      string    `yaml:"pull_policy"`
	Restart         string    `yaml:"restart"`
	StopSignal      string    `yaml:"stop_signal"`
	ContainerName   string    `yaml:"container_name"`
	NetworkMode     string    `yaml:"network_mode"`
	Entrypoint      any       `yaml:"entrypoint"`
	Command         []string  `yaml:"command"`
	Init            bool      `yaml:"init"`
	Ports           []string  `yaml:"ports"`
	Volumes         []string  `yaml:"volumes"`
	Networks        []string  `yaml:"networks"`
	MemLimit        string    `yaml:"mem_limit"`
	PidsLimit       int       `yaml:"pids_limit"`
	Scale           int       `yaml:"scale"`
	ReadOnly        bool      `yaml:"read_only"`
	CapDrop         []string  `yaml:"cap_drop"`
	Tmpfs           []string  `yaml:"tmpfs"`
	SecurityOpt     []string  `yaml:"security_opt"`
	StopGracePeriod string    `yaml:"stop_grace_period"`
	EnvFile         []envFile `yaml:"env_file"`
	Configs         []struct {
		Source string `yaml:"source"`
		Target string `yaml:"target"`
	} `yaml:"configs"`
	Environment map[string]string `yaml:"environment"`
	Healthcheck struct {
		Test        []string `yaml:"test"`
		StartPeriod string   `yaml:"start_period"`
	} `yaml:"healthcheck"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
}

type build struct {
	Context string `yaml:"context"`
	Target  string `yaml:"target"`
}

type envFile struct {
	Path     string `yaml:"path"`
	Required bool   `yaml:"required"`
}

// token has the variables that a user must set before anything starts.
var token = map[string]string{
	"TURNSTILE_HTTP_TOKEN": "0123456789abcdef",
	"WORKER_PASSWORD":      "w0123456789", "GATEWAY_PASSWORD": "g0123456789", "DASHBOARD_PASSWORD": "d0123456789",
}

// ownVariables are the file's variables that are not settings of a worker.
var ownVariables = []string{"WORKER_PASSWORD", "GATEWAY_PASSWORD", "DASHBOARD_PASSWORD", "WORKER_MEMORY"}

var (
	reference = regexp.MustCompile(`\$\{([A-Z0-9_]+):([-?])([^}]*)\}`)
	passedOn  = regexp.MustCompile(`(?m)^ +([A-Z0-9_]+):\n`)
)

// interpolate expands ${NAME:-default} and ${NAME:?error}, the two forms that the file uses, like
// docker compose. $$ is a $. A variable without a value has the value from outside, or is absent.
func interpolate(text string, vars map[string]string) (out string, names []string, err error) {
	out = reference.ReplaceAllStringFunc(text, func(match string) string {
		part := reference.FindStringSubmatch(match)
		name, kind, word := part[1], part[2], part[3]
		names = append(names, name)
		switch value := vars[name]; {
		case value != "":
			return value
		case kind == "?":
			err = cmp.Or(err, fmt.Errorf("required variable %s is missing a value: %s", name, word))
			return ""
		}
		return word
	})
	out = passedOn.ReplaceAllStringFunc(out, func(line string) string {
		name := passedOn.FindStringSubmatch(line)[1]
		names = append(names, name)
		value, ok := vars[name]
		if !ok {
			return ""
		}
		return strings.TrimSuffix(line, "\n") + " " + strconv.Quote(value) + "\n"
	})
	if err == nil && strings.Contains(out, "${") {
		err = fmt.Errorf("a reference in another form than ${NAME:-default} or ${NAME:?error}")
	}
	return strings.ReplaceAll(out, "$$", "$"), names, err
}

func readCompose(t *testing.T, vars map[string]string) compose {
	t.Helper()
	raw, err := os.ReadFile(root + "/docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	text, names, err := interpolate(string(raw), vars)
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	worker := c.Services["worker"].Environment
	for _, name := range workerEnv(t) {
		names = append(names, name)
		if value, ok := vars[name]; ok {
			worker[name] = value
		}
	}
	for _, variable := range readDockerfile(t)["worker"].environ() { // what the image says holds where nothing else does
		name, value, _ := strings.Cut(variable, "=")
		if _, ok := worker[name]; !ok && strings.HasPrefix(name, "TURNSTILE_") {
			worker[name] = value
		}
	}
	for _, name := range names {
		if slices.Contains(usual, name) {
			continue // it stands for a setting
		}
		if !slices.Contains(ownVariables, name) && !slices.ContainsFunc(config.WorkerSettings(), func(s config.Setting) bool { return s.Name == name }) {
			t.Errorf("%s is no setting", name)
		}
	}
	return c
}

// usual are variables of vendors that are read in place of settings.
var usual = []string{"OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"}

// workerEnv are the names in deploy/worker.env, which Compose passes on where they are set (TestComposeSchema).
func workerEnv(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(root + "/deploy/worker.env")
	expect.OK(t, err)
	return regexp.MustCompile(`(?m)^[A-Z0-9_]+$`).FindAllString(string(text), -1)
}

func environ(s service) []string {
	var list []string
	for name, value := range s.Environment {
		list = append(list, name+"="+value)
	}
	return list
}

func TestComposeServices(t *testing.T) {
	t.Parallel()
	c := readCompose(t, token)
	if got := slices.Sorted(maps.Keys(c.Services)); !slices.Equal(got, []string{"asynqmon", "gateway", "redis", "worker"}) {
		t.Fatalf("services %v", got)
	}
	for name, s := range c.Services {
		if s.NetworkMode != "" {
			t.Errorf("%s: network_mode %s", name, s.NetworkMode)
		}
		if len(s.Healthcheck.Test) == 0 {
			t.Errorf("%s has no health check", name)
		}
		if name == "redis" {
			continue
		}
		if s.Image != "turnstile" || s.PullPolicy != "never" || (s.Entrypoint == nil) != (name != "gateway") {
			t.Errorf("%s is not our image as it is: %+v", name, s)
		}
		if s.Restart != "always" { // after a SIGHUP Docker starts no other again
			t.Errorf("%s: restart is %s", name, s.Restart)
		}
		// Process 1 has the secrets in its environment. Only the worker protects its environment,
		// so it must be process 1.
		if s.Init != (name != "worker") {
			t.Errorf("%s: init is %v", name, s.Init)
		}
		if s.DependsOn["redis"].Condition != "service_healthy" {
			t.Errorf("%s does not wait for Redis", name)
		}
		role := strings.Replace(name, "asynqmon", "dashboard", 1)
		if got := s.Environment["REDIS_URL"]; got != "redis://turnstile-"+role+":"+token[strings.ToUpper(role)+"_PASSWORD"]+"@redis:6379/0" {
			t.Errorf("%s uses Redis at %s", name, got)
		}
		for _, other := range []string{"WORKER", "GATEWAY", "DASHBOARD"} {
			if has := strings.Contains(fmt.Sprint(s.Environment), token[other+"_PASSWORD"]); has != (strings.ToUpper(role) == other) {
				t.Errorf("%s has the password of %s: %v", name, other, has)
			}
		}
	}
}

// No service can use up the machine's memory or processes, or gain rights. Each reaches only the
// services that it needs. Agents reach neither the dashboard nor more of Redis than the worker's
// network has.
func TestComposeKeepsServicesApart(t *testing.T) {
	t.Parallel()
	c := readCompose(t, token)
	for name, s := range c.Services {
		if s.MemLimit == "" || s.PidsLimit <= 0 {
			t.Errorf("%s has no limit: mem_limit %q, pids_limit %d", name, s.MemLimit, s.PidsLimit)
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s: read_only %v, cap_drop %q", name, s.ReadOnly, s.CapDrop)
		}
		if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: security_opt %q", name, s.SecurityOpt)
		}
		for _, network := range s.Networks {
			if _, ok := c.Networks[network]; !ok {
				t.Errorf("%s is in the network %s, which is not declared", name, network)
			}
		}
	}
	shared := func(a, b string) (names []string) {
		for _, network := range c.Services[a].Networks {
			if slices.Contains(c.Services[b].Networks, network) {
				names = append(names, network)
			}
		}
		return names
	}
	if got := shared("worker", "asynqmon"); len(got) > 0 {
		t.Errorf("agents reach the dashboard by %q", got)
	}
	if got := shared("worker", "gateway"); len(got) > 0 {
		t.Errorf("agents reach the gateway by %q", got)
	}
	for _, name := range []string{"worker", "asynqmon", "gateway"} {
		if got := shared(name, "redis"); len(got) != 1 {
			t.Errorf("%s reaches Redis by %q", name, got)
		}
		// Docker publishes no port of an internal network, and routes nothing out of it.
		if !slices.ContainsFunc(c.Services[name].Networks, func(n string) bool { return !c.Networks[n].Internal }) {
			t.Errorf("%s reaches nothing outside, nor is reached", name)
		}
	}
	for _, network := range c.Services["redis"].Networks {
		if !c.Networks[network].Internal {
			t.Errorf("Redis is in %s, which leads outside", network)
		}
	}
}

// The worker receives every setting, from the environment of compose or from .env. A variable that
// is not set is absent, so that what the image says holds, or the program's default.
func TestComposePassesSettingsOn(t *testing.T) {
	t.Parallel()
	names := slices.Clone(usual)
	for _, s := range config.WorkerSettings() {
		switch s.Name {
		case "REDIS_URL", "TURNSTILE_HTTP_ADDR": // the file sets these itself
		default:
			names = append(names, s.Name)
		}
	}
	unset := readCompose(t, token).Services["worker"].Environment
	vars := maps.Clone(token)
	for _, name := range names {
		vars[name] = "given-as-" + name
		switch name {
		case "TURNSTILE_AGENT", "TURNSTILE_STOP_TIMEOUT", "TURNSTILE_LOG_FORMAT", "TURNSTILE_HTTP_TOKEN":
		default:
			if value, ok := unset[name]; ok {
				t.Errorf("%s=%s though nobody has set it", name, value)
			}
		}
	}
	services := readCompose(t, vars).Services
	for _, name := range names {
		if got := services["worker"].Environment[name]; got != vars[name] {
			t.Errorf("%s=%q does not reach the worker: %q", name, vars[name], got)
		}
	}

	// Further variables are only for the worker's agents, and not for an image. The secrets in .env are for no service as a whole.
	for name, want := range map[string][]envFile{"worker": {{Path: "agent.env"}, {Path: "deploy/worker.env"}}, "asynqmon": nil, "gateway": nil, "redis": nil} {
		if got := services[name].EnvFile; !slices.Equal(got, want) {
			t.Errorf("%s: env_file is %v", name, got)
		}
	}
	for name, want := range map[string][]string{".dockerignore": {"*"}, ".gitignore": {".env", "/agent.env", "/users.acl", "/gateway-tokens.json"}} {
		text, err := os.ReadFile(root + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		rules := strings.Fields(string(text))
		for _, one := range want {
			if !slices.Contains(rules, one) || slices.Contains(rules, "!"+strings.TrimPrefix(one, "/")) {
				t.Errorf("%s lets %s in: %q", name, one, rules)
			}
		}
	}
}

func TestComposeWorkerScales(t *testing.T) {
	t.Parallel()
	s := readCompose(t, token).Services["worker"]
	expect.Equal(t, "workers", s.Scale, 2)
	expect.Equal(t, "the signal that drains, whatever its image says", s.StopSignal, "SIGTERM")
	if s.ContainerName != "" || len(s.Ports) > 0 {
		t.Errorf("it cannot be scaled: container_name %q, ports %v", s.ContainerName, s.Ports)
	}
	w, err := config.LoadWorker(environ(s), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if loopback, err := config.Loopback(w.HTTPAddr); err != nil || !loopback {
		t.Errorf("its HTTP address %s is not loopback, %v", w.HTTPAddr, err)
	}
}

// Docker waits for the worker's drain, with the file as it stands, and after a change of the one
// variable for it. A drain that does not fit is refused at the start.
func TestComposeStopGracePeriod(t *testing.T) {
	t.Parallel()
	load := func(vars map[string]string) (config.Worker, time.Duration, error) {
		maps.Copy(vars, token)
		s := readCompose(t, vars).Services["worker"]
		period, err := time.ParseDuration(s.StopGracePeriod)
		if err != nil {
			t.Fatal(err)
		}
		w, err := config.LoadWorker(environ(s), config.Options{})
		return w, period, err
	}
	for _, vars := range []map[string]string{
		{}, {"TURNSTILE_STOP_TIMEOUT": "11m", "TURNSTILE_DRAIN_TIMEOUT": "10m"},
	} {
		w, period, err := load(vars)
		if err != nil {
			t.Fatal(err)
		}
		if w.StopTimeout != period {
			t.Errorf("stop_grace_period is %v, TURNSTILE_STOP_TIMEOUT %v", period, w.StopTimeout)
		}
		if need := w.DrainTimeout + w.InterruptGrace + 5*time.Second; period <= need {
			t.Errorf("stop_grace_period is %v, the drain needs %v", period, need)
		}
	}
	if _, _, err := load(map[string]string{"TURNSTILE_DRAIN_TIMEOUT": "10m"}); err == nil || !strings.Contains(err.Error(), "TURNSTILE_STOP_TIMEOUT") {
		t.Errorf("a drain longer than the grace period: %v", err)
	}
}

// While Redis loads, it is not healthy. A full one needs up to 11 s of processor time for each 512 MiB here (the file's comment), and
// has ten times that.
func TestComposeRedisHasTimeToLoad(t *testing.T) {
	t.Parallel()
	s := readCompose(t, token).Services["redis"]
	megabytes, err := strconv.Atoi(strings.TrimSuffix(s.Command[slices.Index(s.Command, "--maxmemory")+1], "mb"))
	expect.OK(t, err)
	period, err := time.ParseDuration(s.Healthcheck.StartPeriod)
	if need := 110 * time.Second * time.Duration(megabytes) / 512; err != nil || period < need {
		t.Errorf("start_period %s, %v; %d MiB need %s", period, err, megabytes, need)
	}
}

// The gateway has valid settings and tokens, and is published on loopback.
func TestComposeGateway(t *testing.T) {
	t.Parallel()
	c := readCompose(t, token)
	s := c.Services["gateway"]
	g, err := config.LoadGateway(environ(s), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Configs) != 1 || s.Configs[0].Target != g.TokensFile {
		t.Fatalf("configs %+v, the tokens are in %s", s.Configs, g.TokensFile)
	}
	dir, _ := secrets(t)
	if _, err := gateway.LoadTokens(filepath.Join(dir, c.Configs[s.Configs[0].Source].File)); err != nil {
		t.Error(err)
	}
	_, port, err := net.SplitHostPort(g.Addr)
	if want := []string{"127.0.0.1:" + port + ":" + port}; err != nil || !slices.Equal(s.Ports, want) {
		t.Errorf("ports %v, want %v", s.Ports, want)
	}
	if grace, err := wire.ParseDuration(s.StopGracePeriod); err != nil || grace < g.Drain+5*time.Second {
		t.Errorf("a drain of %s has %s", g.Drain, s.StopGracePeriod)
	}
}

func TestComposeDashboard(t *testing.T) {
	t.Parallel()
	s := readCompose(t, token).Services["asynqmon"]
	if !slices.Equal(s.Command, []string{"dashboard"}) {
		t.Errorf("command %v", s.Command)
	}
	w, err := config.LoadWorker(environ(s), config.Options{NoAgent: true})
	if err != nil {
		t.Fatal(err)
	}
	if w.DashboardWrite || w.HTTPToken != token["TURNSTILE_HTTP_TOKEN"] {
		t.Errorf("write %v, token %q", w.DashboardWrite, w.HTTPToken)
	}
	if len(s.Ports) != 1 {
		t.Fatalf("ports %v", s.Ports)
	}
	part := strings.Split(s.Ports[0], ":")
	if len(part) != 3 {
		t.Fatalf("port %s has no address, so it would be published on all", s.Ports[0])
	}
	if loopback, err := config.Loopback(net.JoinHostPort(part[0], part[1])); err != nil || !loopback {
		t.Errorf("it is published on %s, %v", s.Ports[0], err)
	}
	host, port, err := net.SplitHostPort(w.HTTPAddr)
	if err != nil || port != part[2] || host != "0.0.0.0" {
		t.Errorf("port %s leads to nothing: it listens on %s, %v", s.Ports[0], w.HTTPAddr, err)
	}

	raw, err := os.ReadFile(root + "/docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	others := maps.Clone(token)
	delete(others, "TURNSTILE_HTTP_TOKEN")
	if _, _, err := interpolate(string(raw), others); err == nil || !strings.Contains(err.Error(), "TURNSTILE_HTTP_TOKEN") {
		t.Errorf("without a token: %v", err)
	}
	delete(s.Environment, "TURNSTILE_HTTP_TOKEN")
	if _, err := config.LoadWorker(environ(s), config.Options{NoAgent: true}); err == nil {
		t.Error("the program serves it without a token")
	}
}
