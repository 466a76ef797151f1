package deploycheck

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	deploy = "../../../../deploy"
	// compose prints what Docker Compose makes of a file.
	compose = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2"
	keda    = "github.com/kedacore/keda/v2@v2.21.0"
)

func TestCompose(t *testing.T) {
	file, err := filepath.Abs(filepath.Join(deploy, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	out := output(t, "go", "run", compose, "-format=json", "-no-interpolation", "-no-path-resolution", file)
	var project struct {
		Services map[string]struct {
			Environment map[string]string
			Command     []string
			Build       struct{ Context, Dockerfile string }
		}
	}
	if err := json.Unmarshal(out, &project); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if got, want := slices.Sorted(maps.Keys(project.Services)), []string{"postgres", "temporal", "worker1", "worker2"}; !slices.Equal(got, want) {
		t.Fatalf("the services are %q, want %q", got, want)
	}
	for _, name := range []string{"worker1", "worker2"} {
		s := project.Services[name]
		if _, err := os.Stat(filepath.Join(deploy, s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.Environment["TEMPORAL_ADDRESS"] != "temporal:7233" || len(s.Command) == 0 {
			t.Errorf("%s is started with %q and %v", name, s.Command, s.Environment)
		}
	}
}

func TestKubernetes(t *testing.T) {
	var secret corev1.Secret
	strict(t, "secret.yaml", &secret)
	var worker appsv1.Deployment
	strict(t, "worker.yaml", &worker)
	pod := &worker.Spec.Template
	for k, v := range worker.Spec.Selector.MatchLabels {
		if pod.Labels[k] != v {
			t.Errorf("the pods do not have the label %s=%s", k, v)
		}
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	var prune batchv1.CronJob
	strict(t, "prune.yaml", &prune)
	job := prune.Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	if job.Image != pod.Spec.Containers[0].Image {
		t.Errorf("the job has the image %s, and the workers %s", job.Image, pod.Spec.Containers[0].Image)
	}
	for _, c := range append(pod.Spec.Containers, job) {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("container %s mounts %s, which is no volume", c.Name, m.Name)
			}
		}
		if c.EnvFrom[0].SecretRef.Name != secret.Name {
			t.Errorf("container %s reads the secret %s", c.Name, c.EnvFrom[0].SecretRef.Name)
		}
	}
}

func TestScaledObject(t *testing.T) {
	dir := module(t, keda)
	scaled := document(t, filepath.Join(deploy, "kubernetes", "scale.yaml"))
	crd := document(t, filepath.Join(dir, "config/crd/bases/keda.sh_scaledobjects.yaml"))
	version := crd.(map[string]any)["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	schema := closed(version["schema"].(map[string]any)["openAPIV3Schema"])
	c := jsonschema.NewCompiler()
	if err := c.AddResource("crd.json", schema); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("crd.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(scaled); err != nil {
		t.Error(err)
	}
	spec := scaled.(map[string]any)["spec"].(map[string]any)
	var worker appsv1.Deployment
	strict(t, "worker.yaml", &worker)
	if target := spec["scaleTargetRef"].(map[string]any)["name"]; target != worker.Name {
		t.Errorf("it scales %s, not %s", target, worker.Name)
	}
	trigger := spec["triggers"].([]any)[0].(map[string]any)
	metadata := trigger["metadata"].(map[string]any)
	known := parameters(t, dir, trigger["type"].(string))
	for name := range metadata {
		if !known[name] {
			t.Errorf("the scaler has no parameter %s", name)
		}
	}
	args := strings.Join(worker.Spec.Template.Spec.Containers[0].Command, " ")
	if id := metadata["workerDeploymentBuildId"].(string); !strings.Contains(args, "--build-id "+id) {
		t.Errorf("it counts the tasks of build %s, and the workers start with %s", id, args)
	}
}

// parameters are those of one of KEDA's scalers.
func parameters(t *testing.T, dir, scaler string) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "schema/generated/scalers-schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Scalers []struct {
			Type       string
			Parameters []struct{ Name string }
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, s := range list.Scalers {
		if s.Type == scaler {
			for _, p := range s.Parameters {
				known[p.Name] = true
			}
		}
	}
	if len(known) == 0 {
		t.Fatalf("KEDA has no scaler %q", scaler)
	}
	return known
}

// closed forbids the keys that a schema of Kubernetes does not name: the server drops them.
func closed(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if properties, ok := m["properties"].(map[string]any); ok {
		for k, p := range properties {
			properties[k] = closed(p)
		}
		m["additionalProperties"] = false
	}
	if items, ok := m["items"]; ok {
		m["items"] = closed(items)
	}
	if more, ok := m["additionalProperties"].(map[string]any); ok {
		m["additionalProperties"] = closed(more)
	}
	if m["type"] == "object" && m["properties"] == nil {
		delete(m, "properties") // any object, such as metadata
	}
	return m
}

func strict(t *testing.T, name string, object any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(deploy, "kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, object); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func document(t *testing.T, path string) any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = yaml.YAMLToJSONStrict(data); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

// module is the folder of a Go module of somebody else.
func module(t *testing.T, at string) string {
	t.Helper()
	var got struct{ Dir string }
	if err := json.Unmarshal(output(t, "go", "mod", "download", "-json", at), &got); err != nil {
		t.Fatal(err)
	}
	return got.Dir
}

var offline = regexp.MustCompile(`(?i)dial tcp|no such host|module lookup disabled|connection refused|i/o timeout`)

// output runs a command outside this module, and skips the test without the network.
func output(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = t.TempDir(), &stderr
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil && offline.Match(append(stderr.Bytes(), out...)) {
		t.Skipf("%s cannot be had: %s", args[len(args)-1], stderr.Bytes())
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out
}
