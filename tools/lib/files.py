"""Writes files below one folder and nowhere else.

The folder is $AGENTS_TOOL_ROOT, or the working directory. A path is resolved,
links followed, and the result must be below it. From there on the folders are
opened one by one without following links, and everything happens relative to
them: a link that somebody puts in the way meanwhile makes it fail instead of
leading elsewhere. A file is replaced by renaming, so it is never half written. Where the new
file could not have the owner, group and access control list of the old one, the old
one is written to instead: a change of a file never changes who may read it.
"""

import contextlib
import errno
import fcntl
import os
import stat

from tool import NO_LINKS, Failure, because, kind_of, open_regular, show, wrong

MOST_BYTES = 64 << 20

ROOT = "AGENTS_TOOL_ROOT"

# What decides which programs are executed: the runtime names it, a path a line.
TREE = "AGENTS_TREE"
CFG = "agents-exe.cfg.json"

ACL = "system.posix_acl_access"


class Root:
    """The folder that may be written to. Whoever has it open has it alone: of
    two tools that read and write a file, none loses what the other wrote."""

    def __init__(self):
        name = os.environ.get(ROOT) or "."
        self.path = os.path.realpath(name)
        self.folders = {}  # open ones, by their names below the root
        try:
            self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as e:
            raise Failure(f"{ROOT}: {because(e)}") from None
        # Some network file systems have no locks; the renames are atomic there too.
        with contextlib.suppress(OSError):
            fcntl.flock(self.fd, fcntl.LOCK_EX)

    def target(self, path, make_folders=False):
        """The Target that path names."""
        if not path:
            raise wrong("path is missing or empty")
        if path.endswith("/") or os.path.basename(path) in (".", ".."):
            raise wrong(f"{show(path)} names a folder, not a file")
        # Where a rule has judged the path, a link in it is new, and makes folder fail.
        real = os.path.abspath(path) if os.environ.get(NO_LINKS) else os.path.realpath(path)
        below = os.path.join(self.path, "")
        if not real.startswith(below):
            why = f"{show(path)} is {show(real)}, which is" if real != path else f"{show(path)} is"
            raise Failure(f"{why} outside {show(self.path)}; files are written only below it ({ROOT})")
        parts = real[len(below):].split("/")
        for part in parts:
            system = repository(part)
            if system:
                raise Failure(f"{show(path)}: {part} belongs to {system}, which runs programs that its files name; nothing is written there")
        if in_tree(real):
            raise Failure(f"{show(path)} belongs to the agents that run here and their tools ({TREE}), which decides what is executed; nothing is written there")
        folder = self.folders.get(tuple(parts[:-1]))
        if folder is None:
            folder = self.folder(path, parts[:-1], make_folders)
            if folder is not None:
                self.folders[tuple(parts[:-1])] = folder
        return Target(path, real, folder)

    def folder(self, path, parts, make):
        """Opens the folder below the root that parts lead to; None if there is
        none and make is false."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.dup(self.fd)
        for part in parts:
            parent = fd
            try:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=parent)
                fd = os.open(part, flags, dir_fd=parent)
            except FileNotFoundError:
                return None
            except OSError as e:
                raise Failure(f"{show(path)}: {show(part)}: {e.strerror}") from None
            finally:
                os.close(parent)
        return fd


def repository(part):
    """The version control whose folder some file system takes part for; None if there is none."""
    plain = "".join(c for c in part if c.isprintable()).casefold().rstrip(". ")
    return {".git": "git", "git~1": "git", ".hg": "Mercurial", "hg~1": "Mercurial"}.get(plain)


def in_tree(real):
    """Whether real is one of the files that make the agents, or below one of
    their folders."""
    if os.path.basename(real).casefold() == CFG:
        return True
    paths = [p for p in os.environ.get(TREE, "").split("\n") if p] + [os.path.dirname(os.path.realpath(__file__))]
    files = {f for f in map(identity, paths) if f}
    while True:
        # A file system may take other spellings for the same name.
        if real in paths or identity(real) in files:
            return True
        if real == "/":
            return False
        real = os.path.dirname(real)


def identity(path):
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino


class Target:
    """A file to write, in a folder that is open."""

    def __init__(self, shown, real, folder):
        self.shown = show(shown)
        self.real = real
        self.folder = folder
        self.name = os.path.basename(real)
        self.info = self.look()
        if self.info is None:
            return
        if not stat.S_ISREG(self.info.st_mode):
            raise Failure(f"{self.shown} is {kind_of(self.info.st_mode)}, not a regular file")
        if not self.info.st_mode & 0o222 or not os.access(self.name, os.W_OK, dir_fd=folder):
            raise Failure(f"{self.shown} is read-only")

    def look(self):
        if self.folder is None:
            return None
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as e:
            raise Failure(f"{self.shown}: {e.strerror}") from None

    def read(self):
        """The bytes of the file, which must be there."""
        if self.info is None:
            raise Failure(f"{self.shown}: no such file")
        fd, info = open_regular(self.name, self.folder)
        with open(fd, "rb") as f:
            if info.st_size > MOST_BYTES:
                raise Failure(f"{self.shown} has {info.st_size:,} bytes; at most {MOST_BYTES:,} can be changed")
            self.info = info
            return f.read(MOST_BYTES + 1)

    def copy_list(self, to):
        """Gives another file the access control list of this one; False if that fails."""
        if not hasattr(os, "getxattr"):
            return True
        fd = os.open(self.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self.folder)
        try:
            os.setxattr(to, ACL, os.getxattr(fd, ACL))
        except OSError as e:
            return e.errno in (errno.ENODATA, errno.EOPNOTSUPP)
        finally:
            os.close(fd)
        return True

    def replace(self, data, mode=None):
        """Writes the file anew, with the mode that it has. Fails if it has
        changed since it was looked at, or has appeared."""
        staged = self.stage(data, mode)
        try:
            staged.commit()
        finally:
            staged.close()

    def stage(self, data, mode=None):
        return Staged(self, data, mode)

    def delete(self):
        self.unchanged()
        os.unlink(self.name, dir_fd=self.folder)
        sync(self.folder)

    def unchanged(self):
        now, then = self.look(), self.info
        same = now is None and then is None or (
            now is not None and then is not None
            and (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)
            == (then.st_dev, then.st_ino, then.st_size, then.st_mtime_ns))
        if not same:
            raise Failure(f"{self.shown} was changed by somebody else meanwhile; nothing is written")


class Staged:
    """New content of a Target beside it, under a name of its own."""

    def __init__(self, target, data, mode):
        self.target = target
        self.data = data
        self.name = f".agents-{os.urandom(8).hex()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self.name, flags, 0o600, dir_fd=target.folder)
        try:
            with open(fd, "wb") as f:
                self.alike = self.permit(f.fileno(), mode)
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
        except BaseException as e:
            self.close()
            if isinstance(e, OSError):
                raise Failure(f"{target.shown}: {e.strerror}; nothing is written") from None
            raise

    def permit(self, fd, mode):
        """Gives the new file the owner, list and mode of the old one; False if it cannot
        have them."""
        info = self.target.info
        if info is None:
            mask = os.umask(0o077)
            os.umask(mask)
            os.fchmod(fd, (mode or 0o666) & ~mask)
            return True
        try:
            now = os.fstat(fd)
            if (now.st_uid, now.st_gid) != (info.st_uid, info.st_gid):
                os.fchown(fd, info.st_uid, info.st_gid)
            # Like the kernel at a write, without set-user-id.
            os.fchmod(fd, stat.S_IMODE(info.st_mode) & 0o777)
            return self.target.copy_list(fd)
        except OSError:
            return False

    def commit(self):
        t = self.target
        t.unchanged()
        if t.info is None:
            self.create()
        elif self.alike:
            os.rename(self.name, t.name, src_dir_fd=t.folder, dst_dir_fd=t.folder)
            self.name = None
        else:
            self.overwrite()
        sync(t.folder)

    def overwrite(self):
        t = self.target
        fd = os.open(t.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=t.folder)
        with open(fd, "wb", buffering=0) as f:
            info = os.fstat(fd)
            if (info.st_dev, info.st_ino) != (t.info.st_dev, t.info.st_ino):
                raise Failure(f"{t.shown} was changed by somebody else meanwhile; nothing is written")
            view = memoryview(self.data)
            while view:
                view = view[f.write(view):]
            f.truncate(len(self.data))
            os.fsync(fd)

    def create(self):
        """Takes the name only if nobody else has it."""
        t = self.target
        try:
            os.link(self.name, t.name, src_dir_fd=t.folder, dst_dir_fd=t.folder, follow_symlinks=False)
        except FileExistsError:
            raise Failure(f"{t.shown} was created by somebody else meanwhile; nothing is written") from None
        except OSError as e:
            if e.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EINVAL):
                raise Failure(f"{t.shown}: {e.strerror}") from None
            os.rename(self.name, t.name, src_dir_fd=t.folder, dst_dir_fd=t.folder)
            self.name = None

    def close(self):
        if self.name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self.name, dir_fd=self.target.folder)
            self.name = None


def sync(folder):
    # Some file systems cannot sync a folder; the content is safe already.
    with contextlib.suppress(OSError):
        os.fsync(folder)
