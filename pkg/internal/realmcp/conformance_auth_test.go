//go:build unix

package realmcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// runSignIn runs the agent of a scenario about sign-ins, and signs in when a run asks for it,
// at most twice.
func (p *testAgent) runSignIn() (code int, err error) {
	if err := p.signInConfig(); err != nil {
		return 0, err
	}
	p.rules = []object{calls(call{Tool: "mcp_s_test-tool"})}
	file, err := p.write()
	if err != nil {
		return 0, err
	}
	for range 3 {
		var out bytes.Buffer
		cmd := p.agentsCommand("run", "--agent-file", file, "--prompt", "go", "--output", "jsonl")
		cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, &out), io.MultiWriter(os.Stderr, &out)
		if code, err = exitCode(cmd.Run()); err != nil {
			return 0, err
		}
		wanted := loginCommand.FindSubmatch(out.Bytes())
		if wanted == nil {
			return code, nil
		}
		args := []string{"mcp", "login", "s", "--agent-file", file, "--no-browser"}
		if len(wanted[1]) > 0 {
			args = append(args, "--scope", string(wanted[1]))
		}
		if code, err = p.login(args...); err != nil || code != 0 {
			return code, err
		}
	}
	return 1, nil // it asks again and again
}

var loginCommand = regexp.MustCompile("run `agents mcp login s --agent-file [^` ]+(?: --scope '([^']*)')?`")

// login signs in: it opens the address that the program prints, as a browser does.
func (p *testAgent) login(args ...string) (code int, err error) {
	cmd := p.agentsCommand(args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(os.Stderr, lines.Text())
		if address := strings.TrimSpace(lines.Text()); strings.HasPrefix(address, "http") {
			resp, failed := http.Get(address)
			if failed != nil {
				err = failed
				_ = cmd.Process.Kill()
				break
			}
			resp.Body.Close()
		}
	}
	code, ended := exitCode(cmd.Wait())
	return code, errors.Join(err, ended)
}

// signInConfig configures the sign-in with what the suite gives for it.
func (p *testAgent) signInConfig() error {
	var c struct {
		ClientID      string `json:"client_id"`
		Secret        string `json:"client_secret"`
		PrivateKey    string `json:"private_key_pem"`
		JWT           string `json:"valid_jwt"`
		IDToken       string `json:"idp_id_token"`
		TokenEndpoint string `json:"idp_token_endpoint"`
		IDPClient     string `json:"idp_client_id"`
	}
	if text := os.Getenv(contextVariable); text != "" {
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return fmt.Errorf("%s: %w", contextVariable, err)
		}
	}
	scenario := os.Getenv(scenarioVariable)
	oauth := object{"clientMetadataUrl": "https://conformance-test.local/client-metadata.json"}
	if c.ClientID != "" {
		oauth = object{"clientId": c.ClientID}
	}
	if strings.Contains(scenario, "client-credentials") {
		oauth["grant"] = "client_credentials"
	}
	if c.Secret != "" {
		oauth["clientSecret"] = "${key:server}"
		keys, _ := json.Marshal(object{"keys": []object{{"id": "server", "value": c.Secret}}})
		if err := os.WriteFile(filepath.Join(p.dir, "agents-exe.keys"), keys, 0o600); err != nil {
			return err
		}
	}
	if c.IDToken != "" {
		oauth["identityProvider"] = object{"tokenEndpoint": c.TokenEndpoint, "clientId": c.IDPClient}
	}
	for key, text := range map[string]string{"privateKeyFile": c.PrivateKey, "assertionFile": c.JWT + c.IDToken} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(p.dir, key), []byte(text), 0o600); err != nil {
			return err
		}
		oauth[key] = key
		if key == "assertionFile" {
			oauth["grant"] = "jwt_bearer"
		}
	}
	p.servers[0] = with(p.servers[0], object{"oauth": oauth})
	return nil
}
