[.css | .. | objects | .__compat? // empty | .tags[]?] | group_by(.) | map([.[0], length])
