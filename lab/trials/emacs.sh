cat >program.el <<'PROGRAM'
(require 'dom)
(require 'json)
(defun words (n) (mapcar (lambda (i) (format "%x-%d" (* i 7919) i)) (number-sequence 1 n)))
(with-temp-buffer
  (dolist (word (words 8000)) (insert word "\n"))
  (sort-lines nil (point-min) (point-max))
  (message "sorted %s" (secure-hash 'sha256 (current-buffer)))
  (goto-char (point-min))
  (let ((count 0))
    (while (re-search-forward "^\\([a-f]+\\)[0-9]" nil t) (setq count (1+ count)))
    (message "found %d" count)))
(let* ((text (json-encode (words 3000))) (again (json-parse-string text)))
  (message "json %d %s" (length again) (aref again 2999)))
(with-temp-buffer
  (insert "<a>" (mapconcat (lambda (w) (format "<b>%s</b>" w)) (words 2000) "") "</a>")
  (message "xml %d" (length (dom-by-tag (libxml-parse-xml-region (point-min) (point-max)) 'b))))
(dotimes (_ 5) (garbage-collect))
(with-temp-buffer
  (insert (mapconcat #'identity (words 500) "\n"))
  (call-process-region (point-min) (point-max) "sort" t t nil "-r")
  (goto-char (point-min))
  (message "sort -r %s" (buffer-substring (point-min) (line-end-position))))
(message "compiled %s" (funcall (byte-compile '(lambda (x) (* x 2))) 21))
(message "threads %s"
  (mapcar #'thread-join
    (mapcar (lambda (n) (make-thread `(lambda () (length (words ,n))))) '(100 200 300))))
PROGRAM
exec emacs --batch --quick --load program.el
