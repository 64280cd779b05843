// The program that work is cut out of: its main is in the stand-in's library, which the injected library
// finds again.
extern "C" int standin_main(int argc, char** argv);
int main(int argc, char** argv) { return standin_main(argc, argv); }
