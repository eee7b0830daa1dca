cat >program.tcl <<'PROGRAM'
package require sqlite3
package require Thread

sqlite3 database :memory:
database eval {create table words (id integer primary key, word text)}
database eval begin
for {set i 0} {$i < 5000} {incr i} {
    set word [string repeat x [expr {$i % 60}]]$i
    database eval {insert into words (word) values ($word)}
}
database eval commit
database function reversed {string reverse}
puts "longest: [database eval {select max(length(reversed(word))) from words}]"
puts "some: [database eval {select reversed(word) from words where id % 1000 = 7}]"

set threads {}
for {set t 0} {$t < 4} {incr t} {
    lappend threads [thread::create -joinable]
}
foreach thread $threads {
    lappend lengths [thread::send $thread {
        set all {}
        for {set i 0} {$i < 20000} {incr i} {
            lappend all [format %08x $i]
        }
        string length [join [lsort -decreasing $all] ,]
    }]
    thread::release $thread
    thread::join $thread
}
puts "in threads: $lengths"
database close
PROGRAM
exec tclsh8.6 program.tcl
