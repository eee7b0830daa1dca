GUILE_AUTO_COMPILE=0
export GUILE_AUTO_COMPILE
cat >program.scm <<'PROGRAM'
(use-modules (ice-9 threads) (srfi srfi-1) (ice-9 regex) (ice-9 format))

(define (factorial n) (fold * 1 (iota n 1)))
(define digits (number->string (factorial 900)))
(format #t "digits of 900!: ~a ~a~%" (string-length digits) (string-take digits 20))

(define table (make-hash-table))
(do ((i 0 (+ i 1))) ((= i 20000))
  (hash-set! table (number->string i 16) (make-string (modulo i 30) #\a)))
(gc)
(format #t "characters: ~a~%" (hash-fold (lambda (key value sum) (+ sum (string-length value))) 0 table))
(format #t "matches: ~a~%" (length (list-matches "[0-9]+7" digits)))
(format #t "in threads: ~a~%"
  (par-map (lambda (n) (string-length (number->string (factorial n)))) (iota 8 100 50)))
PROGRAM
exec guile-3.0 -s program.scm
