# A library of reheap for one program. On NixOS, `environment.memoryAllocator` does this for the whole system with the
# allocators that NixOS has; this is for the versions that reheap has, and for one program.
#
#   reheap preload -a jemalloc -o .
#   nix-build nix.nix && ./result/bin/redis-server
{
  pkgs ? import <nixpkgs> { },
}:
pkgs.symlinkJoin {
  name = "redis-with-jemalloc";
  paths = [ pkgs.redis ];
  nativeBuildInputs = [ pkgs.makeWrapper ];
  postBuild = ''
    wrapProgram $out/bin/redis-server \
      --prefix LD_PRELOAD : ${pkgs.runCommand "libjemalloc" { } ''
        install -D -m 755 ${./.}/libjemalloc-*.so $out/lib/libjemalloc.so
      ''}/lib/libjemalloc.so
  '';
}
