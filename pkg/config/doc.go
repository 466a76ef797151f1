// Package config finds and reads what lies around an agent: the keys file, the
// file agents-exe.cfg.json, and the agent files that these two name.
//
// A [Config] is everything that is in effect, with the reason for each path; the
// command line wins over the environment, the environment over the cfg file, the
// cfg file over the defaults. [Keys] are the entries of a keys file, their values
// of type [Secret], which does not print itself. [SetKey] and [RemoveKey] change a keys
// file; nothing else is ever created on disk.
//
//	env, err := config.SystemEnv()
//	c, err := config.Load(env, config.Flags{AgentFiles: flags})
//	choice := c.KeysFile(c.AgentFiles[0].Path)
//	keys, warnings, err := config.ReadKeys(choice.Path)
//	key, ok := keys.Lookup("openai")
//	header.Set("Authorization", "Bearer "+key.Value.Reveal())
//
// The environment variables that count are [EnvAgentFile] and [EnvKeysFile].
package config
