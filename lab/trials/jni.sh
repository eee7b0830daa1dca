cat >Sums.java <<'PROGRAM'
import java.util.*;
import java.util.stream.*;

public class Sums {
    static native long keep(byte[] bytes);
    static native byte[] take(long handle);
    static native String[] words(int count);
    interface Call { int call(int argument); }
    static native int back(Call call, int count);

    public static void main(String[] arguments) throws Exception {
        System.load(System.getProperty("user.dir") + "/libsums.so");
        List<Thread> threads = new ArrayList<>();
        long[] sums = new long[6];
        for (int t = 0; t < sums.length; t++) {
            int number = t;
            threads.add(new Thread(() -> {
                ArrayDeque<Long> handles = new ArrayDeque<>();
                for (int i = 0; i < 20000; i++) {
                    byte[] bytes = new byte[(i * 31 + number) % 700];
                    Arrays.fill(bytes, (byte) i);
                    handles.add(keep(bytes));
                    if (handles.size() > 200) sums[number] += take(handles.remove()).length;
                }
                for (long handle : handles) sums[number] += take(handle).length;
            }));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        System.out.println("sums " + Arrays.toString(sums));
        System.out.println("words " + Arrays.stream(words(50000)).mapToInt(String::length).sum());
        System.out.println("back " + back(x -> x * 2 + String.valueOf(x).length(), 30000));
        System.out.println("sorted " + IntStream.range(0, 200000).mapToObj(i -> "w" + i * 7919 % 100003)
            .parallel().sorted().skip(1000).findFirst().get());
        System.gc();
    }
}
PROGRAM
cat >sums.c <<'PROGRAM'
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kept { jsize length; char *bytes; };

JNIEXPORT jlong JNICALL Java_Sums_keep(JNIEnv *env, jclass class, jbyteArray array) {
    struct kept *kept = malloc(sizeof *kept);
    kept->length = (*env)->GetArrayLength(env, array);
    kept->bytes = NULL;
    jbyte *bytes = (*env)->GetByteArrayElements(env, array, NULL);
    kept->bytes = realloc(kept->bytes, kept->length + 1);
    memcpy(kept->bytes, bytes, kept->length);
    (*env)->ReleaseByteArrayElements(env, array, bytes, JNI_ABORT);
    return (jlong) kept;
}

JNIEXPORT jbyteArray JNICALL Java_Sums_take(JNIEnv *env, jclass class, jlong handle) {
    struct kept *kept = (struct kept *) handle;
    jbyteArray array = (*env)->NewByteArray(env, kept->length);
    (*env)->SetByteArrayRegion(env, array, 0, kept->length, (jbyte *) kept->bytes);
    free(kept->bytes);
    free(kept);
    return array;
}

JNIEXPORT jobjectArray JNICALL Java_Sums_words(JNIEnv *env, jclass class, jint count) {
    jobjectArray words = (*env)->NewObjectArray(env, count, (*env)->FindClass(env, "java/lang/String"), NULL);
    for (jint i = 0; i < count; i++) {
        char *text;
        if (asprintf(&text, "%0*d", i % 90 + 1, i) < 0) abort();
        jstring word = (*env)->NewStringUTF(env, text);
        (*env)->SetObjectArrayElement(env, words, i, word);
        (*env)->DeleteLocalRef(env, word);
        free(text);
    }
    return words;
}

JNIEXPORT jint JNICALL Java_Sums_back(JNIEnv *env, jclass class, jobject call, jint count) {
    jmethodID method = (*env)->GetMethodID(env, (*env)->GetObjectClass(env, call), "call", "(I)I");
    jint sum = 0;
    for (jint i = 0; i < count; i++) sum += (*env)->CallIntMethod(env, call, method, i);
    return sum;
}
PROGRAM
java=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
gcc -D_GNU_SOURCE -shared -fPIC -O2 -I"$java/include" -I"$java/include/linux" sums.c -o libsums.so
javac Sums.java
exec java -Xmx256m Sums
