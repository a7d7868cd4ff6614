// The program to which the precompiled header of the tests belongs (tests/CMakeLists.txt).
int main() { return 0; }
