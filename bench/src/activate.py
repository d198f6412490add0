"""The file operations of the reference's activation, for comparison.

Every file becomes a link to its absolute path, folders are real folders, everything is written
aside as NAME.new and moved into place by one rename for each name; nothing is synced. What the
reference does beside that (users, units) is left out, and so are its imports, half a second and more.
"""

import json
import os
import shutil
import sys

root, repository, *ids = sys.argv[1:]
FOLDERS = ["bin", "etc", "include", "lib", "dcos.target.wants"]
FILES = ["environment", "environment.export", "active.buildinfo.full.json"]
NAMES = [*FOLDERS, "active", *FILES]


def link_folder(source, target):
    for entry in os.scandir(source):
        place = os.path.join(target, entry.name)
        if entry.is_dir(follow_symlinks=False):
            if not os.path.isdir(place):
                os.mkdir(place)
            link_folder(entry.path, place)
        else:
            os.symlink(entry.path, place)


infos = {}
for package in ids:
    with open(os.path.join(repository, package, "pkginfo.json")) as file:
        infos[package] = json.load(file)
names = {package.split("--")[0] for package in ids}
assert len(names) == len(ids)
for info in infos.values():
    assert all(require in names for require in info.get("requires", []))

os.makedirs(root, exist_ok=True)
for name in NAMES:
    for ending in (".new", ".old"):
        path = os.path.join(root, name + ending)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.remove(path)
for name in [*FOLDERS, "active"]:
    os.mkdir(os.path.join(root, name + ".new"))
environment, buildinfos = [], {}
for package in ids:
    path = os.path.join(repository, package)
    for folder in FOLDERS:
        if os.path.isdir(os.path.join(path, folder)):
            link_folder(os.path.join(path, folder), os.path.join(root, folder + ".new"))
    os.symlink(path, os.path.join(root, "active.new", package.split("--")[0]))
    environment += [f"{key}={value}" for key, value in infos[package].get("environment", {}).items()]
    buildinfos[package] = None
for name in FILES:
    with open(os.path.join(root, name + ".new"), "w") as file:
        json.dump([environment, buildinfos], file)
for name in NAMES:
    path = os.path.join(root, name)
    if os.path.lexists(path):
        os.rename(path, path + ".old")
for name in NAMES:
    os.rename(os.path.join(root, name + ".new"), os.path.join(root, name))
