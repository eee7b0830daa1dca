// The functions of musl that allocate for themselves or for their caller.
#include "check.h"
#include <aio.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <iconv.h>
#include <libintl.h>
#include <locale.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <regex.h>
#include <search.h>
#include <semaphore.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <wchar.h>
#include <wordexp.h>

extern char **environ;

static void locales(void)
{
	locale_t first = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
	CHECK(first != (locale_t)0);
	locale_t second = duplocale(first);
	CHECK(second != (locale_t)0);
	locale_t previous = uselocale(second);
	char text[64];
	CHECK(snprintf(text, sizeof text, "%.2f", 1.5) == 4);
	uselocale(previous);
	freelocale(second);
	freelocale(first);
	CHECK(setlocale(LC_ALL, "C.UTF-8") != NULL);
#ifndef __GLIBC__
	CHECK(setlocale(LC_MESSAGES, "xx_YY") != NULL); // musl takes any name
#endif
	CHECK(bindtextdomain("conformance", "/") != NULL);
	CHECK(textdomain("conformance") != NULL);
	CHECK(strcmp(gettext("untranslated"), "untranslated") == 0);
	CHECK(setlocale(LC_ALL, "C") != NULL);
}

static void names_and_addresses(void)
{
	struct addrinfo *found = NULL;
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST };
	CHECK(getaddrinfo("127.0.0.1", "80", &hints, &found) == 0);
	CHECK(found != NULL && ntohs(((struct sockaddr_in *)found->ai_addr)->sin_port) == 80);
	freeaddrinfo(found);
	hints.ai_flags = 0;
	CHECK(getaddrinfo("localhost", NULL, &hints, &found) == 0);
	CHECK(((struct sockaddr_in *)found->ai_addr)->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	freeaddrinfo(found);
	hints = (struct addrinfo){ .ai_flags = AI_PASSIVE };
	CHECK(getaddrinfo(NULL, "8080", &hints, &found) == 0);
	freeaddrinfo(found);
	struct hostent *host = gethostbyname("127.0.0.1");
	CHECK(host != NULL && host->h_length == 4);
	struct if_nameindex *interfaces = if_nameindex();
	CHECK(interfaces != NULL);
	if_freenameindex(interfaces);
	errno = 0;
	struct passwd *root = getpwuid(0);
	CHECK(root != NULL || errno == 0 || errno == ENOENT); // an image of one file has no /etc/passwd
}

static void child_processes(void)
{
	char line[64] = "";
	FILE *pipe_from = popen("echo from popen", "r");
	CHECK(pipe_from != NULL);
	CHECK(fgets(line, sizeof line, pipe_from) != NULL && strcmp(line, "from popen\n") == 0);
	CHECK(pclose(pipe_from) == 0);

	char path[] = "/tmp/conformance-XXXXXX";
	int file = mkstemp(path);
	CHECK(file >= 0);
	posix_spawn_file_actions_t actions;
	CHECK(posix_spawn_file_actions_init(&actions) == 0);
	CHECK(posix_spawn_file_actions_addopen(&actions, 1, path, O_WRONLY | O_TRUNC, 0) == 0);
	CHECK(posix_spawn_file_actions_adddup2(&actions, 1, 2) == 0);
	CHECK(posix_spawn_file_actions_addclose(&actions, 0) == 0);
	char *arguments[] = { "sh", "-c", "echo from posix_spawn", NULL };
	pid_t pid;
	int status;
	CHECK(posix_spawn(&pid, "/bin/sh", &actions, NULL, arguments, environ) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
	ssize_t length = read(file, line, sizeof line);
	CHECK(length == 17 && memcmp(line, "from posix_spawn\n", 17) == 0);
	close(file);
	unlink(path);
	CHECK(system("exit 7") == 7 << 8);

	wordexp_t words;
	CHECK(wordexp("one 'two three' $((2 + 2))", &words, 0) == 0);
	CHECK(words.we_wordc == 3 && strcmp(words.we_wordv[1], "two three") == 0 && strcmp(words.we_wordv[2], "4") == 0);
	wordfree(&words);
}

static void *failing_dlopen(void *unused)
{
	(void)unused;
	for (int i = 0; i < 10; i++) {
		CHECK(dlopen("/nonexistent/library.so", RTLD_NOW) == NULL);
		char *message = dlerror();
		CHECK(message != NULL && strlen(message) > 5);
		CHECK(dlerror() == NULL);
	}
	CHECK(dlopen("/left/unread.so", RTLD_NOW) == NULL); // musl frees the message after the thread
	return NULL;
}

static void dynamic_loading_errors(void)
{
	failing_dlopen(NULL);
	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, failing_dlopen, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
}

static ssize_t cookie_write(void *cookie, const char *bytes, size_t count)
{
	memcpy((char *)cookie + strlen(cookie), bytes, count);
	return (ssize_t)count;
}

static void streams_and_strings(void)
{
	char *text = NULL, *line = NULL;
	wchar_t *wide = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	CHECK(stream != NULL);
	for (int i = 0; i < 10000; i++)
		CHECK(fprintf(stream, "%04d,", i) == 5);
	CHECK(fclose(stream) == 0 && size == 50000 && strlen(text) == 50000);

	stream = fmemopen(text, size, "r");
	CHECK(stream != NULL);
	size = 0;
	for (int i = 0; i < 10000; i++)
		CHECK(getdelim(&line, &size, ',', stream) == 5 && atoi(line) == i);
	CHECK(getdelim(&line, &size, ',', stream) == -1);
	fclose(stream);
	free(line), free(text);

	stream = open_wmemstream(&wide, &size);
	CHECK(stream != NULL && fputws(L"wide", stream) >= 0 && fclose(stream) == 0);
	CHECK(size == 4 && wcscmp(wide, L"wide") == 0);
	wchar_t *wide_copy = wcsdup(wide);
	CHECK(wide_copy != NULL && wcscmp(wide_copy, L"wide") == 0);
	free(wide), free(wide_copy);

	char written[64] = "";
	stream = fopencookie(written, "w", (cookie_io_functions_t){ .write = cookie_write });
	CHECK(stream != NULL && fputs("cookie", stream) >= 0 && fclose(stream) == 0);
	CHECK(strcmp(written, "cookie") == 0);

	text = strdup("duplicate");
	line = strndup("duplicate", 3);
	CHECK(strcmp(text, "duplicate") == 0 && strcmp(line, "dup") == 0);
	free(text), free(line);
	CHECK(asprintf(&text, "%0*d", 5000, 7) == 5000 && strlen(text) == 5000);
	free(text);

	stream = tmpfile();
	CHECK(stream != NULL && fputs("line\n", stream) >= 0);
	rewind(stream);
	line = NULL, size = 0;
	CHECK(getline(&line, &size, stream) == 5);
	free(line);
	fclose(stream);
	FILE *many[100];
	for (int i = 0; i < 100; i++) {
		many[i] = fopen("/dev/null", "w");
		CHECK(many[i] != NULL);
		CHECK(setvbuf(many[i], NULL, _IOFBF, 8192) == 0);
	}
	for (int i = 0; i < 100; i++)
		fclose(many[i]);
}

static int count_entry(const char *path, const struct stat *status, int type, struct FTW *position)
{
	(void)path, (void)status, (void)type;
	return position->level > 1 ? 1 : 0;
}

static void files_and_directories(void)
{
	char directory[] = "/tmp/conformance-XXXXXX", path[128], pattern[64];
	CHECK(mkdtemp(directory) != NULL);
	for (int i = 0; i < 50; i++) {
		snprintf(path, sizeof path, "%s/file%02d", directory, i);
		int file = open(path, O_CREAT | O_WRONLY, 0600);
		CHECK(file >= 0);
		close(file);
	}
	glob_t paths;
	snprintf(pattern, sizeof pattern, "%s/file?[05]", directory);
	CHECK(glob(pattern, 0, NULL, &paths) == 0 && paths.gl_pathc == 10);
	globfree(&paths);
	struct dirent **entries;
	int count = scandir(directory, &entries, NULL, alphasort);
	CHECK(count == 52);
	for (int i = 0; i < count; i++)
		free(entries[i]);
	free(entries);
	CHECK(nftw(directory, count_entry, 4, FTW_PHYS) == 0);
	char *real = realpath(directory, NULL), *working = getcwd(NULL, 0);
	CHECK(real != NULL && working != NULL);
	free(real), free(working);
	for (int i = 0; i < 50; i++) {
		snprintf(path, sizeof path, "%s/file%02d", directory, i);
		CHECK(unlink(path) == 0);
	}
	CHECK(rmdir(directory) == 0);
}

static int compare_numbers(const void *left, const void *right)
{
	return *(const int *)left - *(const int *)right;
}

static void searching(void)
{
	static int numbers[2000];
	void *root = NULL;
	unsigned state = 3;
	for (int i = 0; i < 2000; i++) {
		numbers[i] = (int)(next_random(&state) % 1000);
		CHECK(tsearch(&numbers[i], &root, compare_numbers) != NULL);
	}
	for (int i = 0; i < 1000; i++)
		if (tfind(&numbers[i], &root, compare_numbers) != NULL)
			CHECK(tdelete(&numbers[i], &root, compare_numbers) != NULL);
	while (root != NULL)
		tdelete(*(int **)root, &root, compare_numbers);

	static char keys[500][8];
#ifdef __GLIBC__
	CHECK(hcreate(1000) != 0);
#else
	CHECK(hcreate(10) != 0); // musl's table grows
#endif
	for (int i = 0; i < 500; i++) {
		snprintf(keys[i], sizeof keys[i], "k%d", i);
		CHECK(hsearch((ENTRY){ keys[i], &numbers[i] }, ENTER) != NULL);
	}
	for (int i = 0; i < 500; i++)
		CHECK(hsearch((ENTRY){ keys[i], NULL }, FIND)->data == &numbers[i]);
	hdestroy();
	regex_t expression;
	for (int i = 0; i < 50; i++) {
		CHECK(regcomp(&expression, "^([a-z]+)[0-9]{2,5}(x|yy|zzz)*$", REG_EXTENDED) == 0);
		regmatch_t matches[3];
		CHECK(regexec(&expression, "abc123xyyzzz", 3, matches, 0) == 0 && matches[1].rm_eo == 3);
		regfree(&expression);
	}
	CHECK(regcomp(&expression, "(unclosed", REG_EXTENDED) != 0);
}

static void environment_and_time(void)
{
	char name[32], value[64];
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 200; i++) {
			snprintf(name, sizeof name, "CONFORMANCE_%d", i);
			snprintf(value, sizeof value, "%d", i * round);
			CHECK(setenv(name, value, 1) == 0);
			CHECK(strcmp(getenv(name), value) == 0);
		}
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof name, "CONFORMANCE_%d", i);
		CHECK(unsetenv(name) == 0 && getenv(name) == NULL);
	}
	time_t now = 1700000000;
	CHECK(setenv("TZ", "A_VERY_LONG_ZONE_NAME-1SUMMER,M3.5.0,M10.5.0/3", 1) == 0);
	tzset();
	CHECK(localtime(&now) != NULL);
	CHECK(setenv("TZ", "UTC0", 1) == 0);
	tzset();
	CHECK(localtime(&now)->tm_hour == 22);
	CHECK(unsetenv("TZ") == 0);
}

static void conversions(void)
{
	iconv_t conversion = iconv_open("UTF-8", "UTF-16"); // this one has a state, which musl allocates
	CHECK(conversion != (iconv_t)-1);
	char input[] = { (char)0xfe, (char)0xff, 0, 'o', 0, 'k' }, output[16];
	char *from = input, *to = output;
	size_t from_left = sizeof input, to_left = sizeof output;
	CHECK(iconv(conversion, &from, &from_left, &to, &to_left) != (size_t)-1);
	CHECK(to - output == 2 && memcmp(output, "ok", 2) == 0);
	CHECK(iconv_close(conversion) == 0);
}

static sem_t notified;

static void notify(union sigval value)
{
	free(value.sival_ptr);
	free(malloc(100));
	sem_post(&notified);
}

static void semaphores_timers_and_asynchronous_input(void)
{
	char name[64], byte;
	snprintf(name, sizeof name, "/conformance-%d", (int)getpid());
	sem_t *semaphore = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
	CHECK(semaphore != SEM_FAILED);
	CHECK(sem_open(name, 0) == semaphore);
	CHECK(sem_wait(semaphore) == 0 && sem_post(semaphore) == 0);
	CHECK(sem_close(semaphore) == 0 && sem_close(semaphore) == 0 && sem_unlink(name) == 0);

	CHECK(sem_init(&notified, 0, 0) == 0);
	timer_t timer;
	struct sigevent event = { .sigev_notify = SIGEV_THREAD };
	event.sigev_notify_function = notify;
	event.sigev_value.sival_ptr = malloc(10);
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	struct itimerspec once = { .it_value.tv_nsec = 1000000 };
	CHECK(timer_settime(timer, 0, &once, NULL) == 0);
	while (sem_wait(&notified) != 0)
		CHECK(errno == EINTR);
	CHECK(timer_delete(timer) == 0);

	int zero = open("/dev/zero", O_RDONLY);
	CHECK(zero >= 0);
	struct aiocb request = { .aio_fildes = zero, .aio_buf = &byte, .aio_nbytes = 1 };
	const struct aiocb *list[] = { &request };
	byte = 1;
	CHECK(aio_read(&request) == 0);
	while (aio_error(&request) == EINPROGRESS)
		CHECK(aio_suspend(list, 1, NULL) == 0 || errno == EINTR);
	CHECK(aio_error(&request) == 0 && aio_return(&request) == 1 && byte == 0);
	close(zero);
}

int main(void)
{
	deadline(120);
	locales();
	names_and_addresses();
	child_processes();
	dynamic_loading_errors();
	streams_and_strings();
	files_and_directories();
	searching();
	environment_and_time();
	conversions();
	semaphores_timers_and_asynchronous_input();
	return passed("libc_paths");
}
