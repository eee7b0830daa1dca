cat >program.R <<'PROGRAM'
set.seed(7)
data <- data.frame(group = rep(letters[1:20], 500), x = rnorm(10000))
data$y <- 3 * data$x + rep(1:20, 500)
model <- lm(y ~ x + group, data)
print(round(coef(model)[1:4], 6))
print(round(tapply(data$y, data$group, mean)[1:5], 6))
words <- vapply(1:20000, function(i) paste0(strrep("w", i %% 20), i), "")
print(table(nchar(gsub("w+", "v", words))))
print(sum(grepl("99$", words, perl = TRUE)))
print(round(svd(outer(1:40, 1:40, function(i, j) 1 / (i + j)))$d[1:4], 8))
library(parallel)
print(unlist(mclapply(1:6, function(i) sum(sort(sin(1:20000 * i)) > 0.5), mc.cores = 3)))
pdf("plot.pdf")
hist(data$x)
invisible(dev.off())
print(file.exists("plot.pdf"))
PROGRAM
exec Rscript --vanilla program.R
