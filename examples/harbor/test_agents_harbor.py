"""The adapter with stand-ins for Harbor's interface, and the real `agents` of PATH."""

import asyncio
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path


class BaseInstalledAgent:
    """What the adapter uses of harbor.agents.installed.base."""

    _resume = False

    def __init__(self, logs_dir, prompt_template_path=None, version=None, extra_env=None, model_name=None, logger=None):
        self.logs_dir, self.model_name, self._version = logs_dir, model_name, version
        self.logger = logger or logging.getLogger("harbor")

    async def _exec(self, environment, command, user=None, env=None):
        result = await environment.exec(command=f"set -o pipefail; {command}", user=user, env=env)
        if result.return_code != 0:
            raise RuntimeError(f"{command}: {result.stdout}{result.stderr}")
        return result

    async def exec_as_root(self, environment, command, env=None):
        return await self._exec(environment, command, user="root", env=env)

    async def exec_as_agent(self, environment, command, env=None):
        return await self._exec(environment, command, env=env)

    async def setup(self, environment):
        await environment.exec(command="mkdir -p /installed-agent", user="root")
        await self.install(environment)
        result = await environment.exec(command=self.get_version_command())
        self._version = self.parse_version(result.stdout)


for name in ("harbor", "harbor.agents", "harbor.agents.installed", "harbor.agents.installed.base"):
    sys.modules[name] = types.ModuleType(name)
sys.modules[name].BaseInstalledAgent = BaseInstalledAgent
sys.modules[name].with_prompt_template = lambda run: run

sys.path.insert(0, str(Path(__file__).parent))
from agents_harbor import Agents  # noqa: E402


class Environment:
    """A container: a folder in which the paths of Harbor lie."""

    def __init__(self, root):
        self.root = root
        (root / "logs/agent").mkdir(parents=True)
        (root / "work").mkdir()

    def inside(self, text):
        return text.replace("/logs/agent", f"{self.root}/logs/agent").replace("/installed-agent", f"{self.root}/installed-agent")

    async def upload_file(self, source, target):
        shutil.copy(source, self.inside(target))

    async def upload_dir(self, source, target):
        shutil.copytree(source, self.inside(target))

    async def exec(self, command, user=None, env=None):
        env = {"HOME": str(self.root), "PATH": "/usr/local/bin:/usr/bin:/bin", **(env or {})}
        done = subprocess.run(["bash", "-c", self.inside(command)], cwd=self.root / "work", env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return types.SimpleNamespace(return_code=done.returncode, stdout=done.stdout, stderr=done.stderr)


class TestAgents(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.root = Path(temp.name)
        self.environment = Environment(self.root)
        self.logs = self.root / "logs/agent"
        programs = Path(shutil.which("agents")).parent
        self.agent = Agents(self.logs, programs=str(programs), folder=str(Path(__file__).parent.parent / "quickstart"))
        asyncio.run(self.agent.setup(self.environment))

    def run_agent(self, instruction):
        context = types.SimpleNamespace()
        try:
            asyncio.run(self.agent.run(instruction, self.environment, context))
        finally:
            self.agent.populate_context_post_run(context)
        return context

    def trajectory(self):
        return json.loads((self.logs / "trajectory.json").read_text())

    def test_a_run(self):
        (self.root / "work/songs").mkdir()
        (self.root / "work/songs/one's.txt").write_text("x")
        context = self.run_agent("What is in the folder songs/?\n$(touch hacked) 'quoted'")
        self.assertIn("one's.txt", (self.logs / "answer.txt").read_text())
        self.assertFalse((self.root / "work/hacked").exists())
        tree = self.trajectory()
        self.assertEqual(tree["agent"]["version"], self.agent._version)
        self.assertEqual([t["agent"]["name"] for t in tree["subagent_trajectories"]], ["editor"])
        totals = [t["final_metrics"]["total_prompt_tokens"] for t in (tree, *tree["subagent_trajectories"])]
        self.assertEqual(context.n_input_tokens, sum(totals))
        self.assertGreater(context.n_output_tokens, 0)

        self.agent._resume = True
        self.run_agent("What is in the folder songs/?")
        self.assertEqual(self.trajectory()["session_id"], tree["session_id"])
        self.assertGreater(len(self.trajectory()["steps"]), len(tree["steps"]))

    def test_a_run_that_fails(self):
        self.agent.agent_file = "none.json"
        with self.assertRaisesRegex(RuntimeError, "none.json"):
            self.run_agent("hello")


if __name__ == "__main__":
    unittest.main()
