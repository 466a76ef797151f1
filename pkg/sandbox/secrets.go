package sandbox

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// homeSecrets are files and folders below the home folder that "workspace" hides: keys,
// credentials, and what is private to a person. The syntax is that of
// filepath.Match. What a build needs and rarely holds a key, such as .gitconfig, is not
// here.
var homeSecrets = []string{
	// Keys of people and machines.
	".ssh", ".gnupg", ".pki", ".age", ".config/age", ".config/sops", "Library/Application Support/sops", ".putty", ".local/share/putty",
	// Password stores and keyrings.
	".password-store", ".local/share/password-store", ".local/share/gopass", ".config/gopass", ".local/share/keyrings", ".local/share/kwalletd", ".kde*/share/apps/kwallet",
	".config/op", ".op", ".config/1Password", ".config/Bitwarden*", ".config/rbw", ".local/share/rbw", ".cache/rbw", ".config/keepassxc", ".cache/keepassxc", ".lastpass", ".local/share/lpass",
	"*.kdbx", "Documents/*.kdbx", "Library/Keychains", "Library/Application Support/1Password*", "Library/Application Support/Bitwarden*", "Library/Application Support/KeePassXC",
	"Library/Group Containers/*.com.1password", "Library/Containers/com.bitwarden.desktop",
	// Clouds.
	".aws", ".azure", ".Azure", ".config/gcloud", ".boto", ".gsutil", ".s3cfg", ".oci", ".aliyun", ".bluemix", ".tccli", ".config/doctl", "Library/Application Support/doctl",
	".config/hcloud", ".config/linode-cli", ".config/scw", ".config/openstack", ".config/rclone", ".rclone.conf", ".config/heroku", ".fly", ".config/fly", ".railway", ".netlify", ".config/netlify",
	".local/share/com.vercel.cli", "Library/Application Support/com.vercel.cli", ".wrangler", ".config/.wrangler", "Library/Preferences/.wrangler", ".cloudflared", ".config/ngrok", ".ngrok2",
	"Library/Application Support/ngrok", ".config/configstore",
	// Containers, clusters, infrastructure.
	".docker", ".config/containers/auth.json", ".kube", ".minikube", ".config/helm/registry", ".config/argocd", ".argocd", ".vault-token", ".config/vault", ".terraform.d", ".terraformrc",
	".pulumi", ".ansible_vault*", ".vault_pass*", ".chef", ".tsh",
	// Code hosts and package registries.
	".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub", ".config/glab-cli", ".config/tea", ".netrc", "_netrc", ".authinfo*", ".npmrc", ".yarnrc", ".yarnrc.yml",
	".config/pnpm/rc", ".pypirc", ".pip/pip.conf", ".config/pip/pip.conf", "Library/Application Support/pip/pip.conf", ".config/pypoetry/auth.toml", ".condarc", ".cargo/credentials*",
	".gem/credentials", ".local/share/gem/credentials", ".bundle/config", ".composer/auth.json", ".config/composer/auth.json", ".m2/settings*.xml", ".gradle/gradle.properties",
	".nuget/NuGet/NuGet.Config", ".config/NuGet/NuGet.Config", ".sbt/*credentials*", ".ivy2/*credentials*", ".hex",
	// Databases.
	".pgpass", ".my.cnf", ".mylogin.cnf", ".dbshell", ".config/pgcli", ".local/share/DBeaverData", "Library/DBeaverData",
	// Keys and sign-ins of agents and models.
	".config/agents-exe/secret-keys", "agents-exe.keys", ".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".gemini/*creds*", ".config/github-copilot", ".config/goose",
	".local/share/opencode/auth.json", ".continue", ".aider*", ".config/io.datasette.llm/keys.json", "Library/Application Support/io.datasette.llm/keys.json", ".cursor", ".config/Cursor",
	".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".huggingface", ".config/openai", ".openai", ".config/anthropic", ".kaggle", ".wakatime.cfg",
	// What a person allowed agents beforehand: no tool may add to it.
	".local/state/agents/approvals.json",
	// Browsers.
	".mozilla", ".config/mozilla", ".librewolf", ".waterfox", ".config/google-chrome*", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge*", ".config/vivaldi*", ".config/opera*",
	".var/app/*", "snap/firefox", "snap/chromium", ".cache/mozilla", ".cache/google-chrome*", ".cache/chromium",
	"Library/Application Support/Firefox", "Library/Application Support/Google", "Library/Application Support/Chromium", "Library/Application Support/BraveSoftware",
	"Library/Application Support/Microsoft Edge*", "Library/Application Support/Vivaldi", "Library/Application Support/com.operasoftware.*", "Library/Application Support/Arc",
	"Library/Safari", "Library/Cookies", "Library/Containers/com.apple.Safari", "Library/HTTPStorages", "Library/WebKit",
	// Mail, messages, personal data.
	".thunderbird", ".config/evolution", ".local/share/evolution", ".mutt*", ".config/mutt", ".config/neomutt", ".msmtprc", ".config/msmtp", ".fetchmailrc", ".offlineimaprc", ".mbsyncrc", ".config/isyncrc",
	"Mail", "Maildir", ".config/Signal", ".config/Slack", ".config/discord", ".config/Element", ".local/share/TelegramDesktop", ".purple", ".config/hexchat", ".irssi", ".weechat", ".config/weechat",
	"Library/Mail", "Library/Messages", "Library/Calendars", "Library/Accounts", "Library/Application Support/AddressBook", "Library/Application Support/Signal", "Library/Application Support/Slack",
	"Library/Application Support/discord", "Library/Application Support/com.apple.TCC", "Library/Application Support/MobileSync", "Library/Group Containers/group.com.apple.notes", "Library/IdentityServices",
	"Library/Metadata/CoreSpotlight", "Library/Suggestions",
	// Wallets.
	".bitcoin", ".ethereum", ".electrum", ".config/solana", ".monero", ".config/Exodus", "Library/Application Support/Bitcoin", "Library/Application Support/Ethereum",
	// Histories of shells and programs, where typed passwords and tokens stay.
	".*history", ".histfile", ".history", ".zsh_sessions", ".bash_sessions", ".local/share/fish/fish_history", ".local/share/atuin", ".local/share/nushell", ".config/nushell/history*",
	".local/share/powershell/PSReadLine", ".viminfo", ".lesshst", ".local/state/bash", ".local/state/zsh", ".local/state/*/history*", ".recently-used", ".local/share/recently-used.xbel",
	// Remote access and networks.
	".vnc", ".config/remmina", ".local/share/remmina", ".rdesktop", ".Xauthority", ".ICEauthority", ".config/tailscale", ".cisco", ".openvpn", ".config/wireguard", ".krb5", ".k5login",
}

// systemSecrets are the same outside of the home folder. Most are readable by root alone,
// and a container is often run by root.
var systemSecrets = []string{
	"/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/etc/security/opasswd", "/etc/master.passwd", "/etc/ssh/ssh_host_*_key", "/etc/ssl/private", "/etc/pki/tls/private", "/etc/letsencrypt",
	"/etc/krb5.keytab", "/tmp/krb5cc_*", "/etc/NetworkManager/system-connections", "/etc/wpa_supplicant", "/etc/wireguard", "/etc/openvpn", "/etc/ppp/*-secrets", "/etc/netplan",
	"/etc/kubernetes", "/var/lib/kubelet", "/etc/rancher", "/var/lib/rancher", "/etc/docker/key.json", "/etc/cni", "/run/secrets", "/var/run/secrets", "/run/credentials", "/run/user",
	// Who may use these sockets is as good as root, or as the person who is logged in.
	"/run/docker.sock", "/var/run/docker.sock", "/run/podman", "/run/containerd", "/run/crio", "/run/dbus", "/tmp/ssh-*", "/tmp/.X11-unix", "/private/tmp/com.apple.launchd.*",
	"/Library/Keychains", "/private/var/db/dslocal", "/private/etc/master.passwd", "/private/etc/sudoers*", "/private/etc/ssh/ssh_host_*_key",
}

// secretVariables are environment variables that name such a file or folder, or a list of
// them.
var secretVariables = []string{
	"AGENTS_API_KEYS_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_CONFIG_DIR", "GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "BOTO_CONFIG",
	"OCI_CLI_CONFIG_FILE", "KUBECONFIG", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "REGISTRY_AUTH_FILE", "VAULT_TOKEN_PATH", "TF_CLI_CONFIG_FILE", "GNUPGHOME", "SSH_AUTH_SOCK", "PASSWORD_STORE_DIR", "NETRC",
	"NPM_CONFIG_USERCONFIG", "npm_config_userconfig", "PIP_CONFIG_FILE", "GH_CONFIG_DIR", "GLAB_CONFIG_DIR", "PGPASSFILE", "RCLONE_CONFIG", "KRB5CCNAME", "KRB5_KTNAME", "SOPS_AGE_KEY_FILE",
	"HF_TOKEN_PATH", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "XAUTHORITY", "HISTFILE",
}

// Secrets returns what "workspace" hides, as absolute patterns of filepath.Match, sorted.
// home is the person's home folder, "" if there is none. dir is the working directory,
// whose keys file is one of them. getenv is os.Getenv: a variable that moves one of these
// places to another adds the other. Whether something is there is not checked; [Present]
// does that.
func Secrets(home, dir string, getenv func(string) string) []string {
	patterns := slices.Clone(systemSecrets)
	join := func(base, name string) {
		if base = filepath.Clean(base); filepath.IsAbs(base) {
			patterns = append(patterns, filepath.Join(literal(base), name))
		}
	}
	moved := map[string]string{".config/": getenv("XDG_CONFIG_HOME"), ".local/share/": getenv("XDG_DATA_HOME"), ".cache/": getenv("XDG_CACHE_HOME"), ".local/state/": getenv("XDG_STATE_HOME"), ".cargo/": getenv("CARGO_HOME")}
	for _, name := range homeSecrets {
		join(home, name)
		for usual, base := range moved {
			if rest, ok := strings.CutPrefix(name, usual); ok {
				join(base, rest)
			}
		}
	}
	join(dir, "agents-exe.keys")
	for _, name := range secretVariables {
		for _, path := range filepath.SplitList(strings.TrimPrefix(getenv(name), "FILE:")) {
			// A folder that holds the working directory too cannot be hidden.
			if path = filepath.Clean(path); !below(dir, path) && !below(home, path) {
				join(path, "")
			}
		}
	}
	slices.Sort(patterns)
	return slices.Compact(patterns)
}

// Present returns the paths that patterns of [Secrets] match now, sorted, links resolved,
// without those that are below another. Links inside of a hidden folder are not resolved.
func Present(patterns []string) []string {
	var paths []string
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // fails on a malformed pattern alone
		for _, path := range found {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				paths = append(paths, real)
			}
		}
	}
	slices.Sort(paths)
	var kept []string
	for _, path := range slices.Compact(paths) {
		if !slices.ContainsFunc(kept, func(above string) bool { return below(path, above) }) {
			kept = append(kept, path)
		}
	}
	return kept
}

// below reports whether path is parent or lies in it; both are clean.
func below(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, strings.TrimSuffix(parent, string(filepath.Separator))+string(filepath.Separator))
}

// literal returns the pattern of filepath.Match that matches path alone.
func literal(path string) string {
	if filepath.Separator == '\\' {
		return path // Match has no escape there, and no name holds * or ?
	}
	return escaper().Replace(path)
}

var escaper = sync.OnceValue(func() *strings.Replacer {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)
})
