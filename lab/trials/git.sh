export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
git init --quiet --initial-branch=main one
cd one
for number in 1 2 3 4 5 6 7 8; do
    export GIT_AUTHOR_DATE="2026-01-0$number 12:00:00 +0000" GIT_COMMITTER_DATE="2026-01-0$number 12:00:00 +0000"
    seq "$number" 3000 >"file-$number"
    seq 1 "$((number * 700))" | shuf --random-source=/dev/zero >shuffled
    git add .
    git commit --quiet --message="change $number"
done
git checkout --quiet -b side HEAD~3
echo side >side
git add side
git commit --quiet --message=side
git checkout --quiet main
git merge --quiet --no-edit side
git repack -a -d -f --quiet --threads=4
git gc --quiet --prune=now
git fsck --full --strict --no-progress
cd ..
git clone --quiet --no-local one two
cd two
git log --format='%H %s' --stat
git blame --line-porcelain shuffled | sha256sum
git grep --count 99 | sha256sum
git archive --format=tar HEAD | sha256sum
git diff HEAD~4 | sha256sum
git format-patch --quiet --stdout HEAD~2 | sha256sum
