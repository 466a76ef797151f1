"""An agent folder as an installed agent of Harbor (harborframework.com).

harbor run -p TASKS -a agents_harbor:Agents --ae OPENAI_API_KEY=... \
    --ak programs=/usr/local/bin --ak folder=./my-agent
"""

import json
import shlex
from pathlib import Path

from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template

LOGS, HOME = "/logs/agent", "/installed-agent"
PROGRAMS = ("agents", "agents-toolbox")


class Agents(BaseInstalledAgent):
    """Runs the agent file of a folder with `agents`, and keeps its session as a trajectory."""

    SUPPORTS_ATIF = True
    SUPPORTS_RESUME = True

    def __init__(self, logs_dir, *args, programs="/usr/local/bin", folder=".", agent_file="agent.json", **kwargs):
        """programs has agents for Linux, folder is copied, and agent_file is in it."""
        super().__init__(logs_dir, *args, **kwargs)
        self.programs, self.folder, self.agent_file = Path(programs), Path(folder), agent_file

    @staticmethod
    def name():
        return "agents"

    def get_version_command(self):
        return f"{HOME}/agents --version"

    def parse_version(self, stdout):
        return stdout.split()[-1]

    async def install(self, environment):
        for program in PROGRAMS:
            if (self.programs / program).exists():
                await environment.upload_file(self.programs / program, f"{HOME}/{program}")
        await environment.upload_dir(self.folder, f"{HOME}/agent")
        await self.exec_as_root(environment, command=f"chmod -R go-w {HOME} && chmod a+rx {HOME}/agents*")

    @with_prompt_template
    async def run(self, instruction, environment, context):
        prompt = self.logs_dir / "prompt.txt"  # an argument has a limit of 128 KiB
        prompt.write_text(instruction)
        await environment.upload_file(prompt, f"{HOME}/prompt.txt")
        kept = f"--session-dir {LOGS}/sessions"
        flags = [f"--agent-file {shlex.quote(f'{HOME}/agent/{self.agent_file}')}", kept, "--quiet"]
        if self.model_name:
            flags.append(f"--model {shlex.quote(self.model_name.split('/', 1)[-1])}")
        if self._resume:
            flags.append("--continue-any")
        export = f"{HOME}/agents session export latest {kept} --format atif >{LOGS}/trajectory.json"
        await self.exec_as_agent(
            environment,
            command=f"{HOME}/agents run {' '.join(flags)} <{HOME}/prompt.txt >{LOGS}/answer.txt 2>{LOGS}/stderr.txt; "
            f"status=$?; {export} && cat {LOGS}/answer.txt; cat {LOGS}/stderr.txt >&2; exit $status",
        )

    def populate_context_post_run(self, context):
        """Tells Harbor what the trajectory and those in it have consumed."""
        path = self.logs_dir / "trajectory.json"
        if not path.exists():
            return
        trees = [json.loads(path.read_text() or "{}")]
        context.cost_usd = trees[0].get("final_metrics", {}).get("total_cost_usd")
        context.n_input_tokens = context.n_output_tokens = context.n_cache_tokens = 0
        for tree in trees:  # grows while it is read
            trees += tree.get("subagent_trajectories", [])
            used = tree.get("final_metrics", {})
            context.n_input_tokens += used.get("total_prompt_tokens", 0)
            context.n_output_tokens += used.get("total_completion_tokens", 0)
            context.n_cache_tokens += used.get("total_cached_tokens", 0)
