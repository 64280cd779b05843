// Lines of an opcode and the place of an operand on standard input; how many registers it spans on standard
// output.
#include <iostream>

#include "nvbit/widths.h"

int main() {
  std::string opcode;
  int place = 0;
  while (std::cin >> opcode >> place) std::cout << warpsight::registers_of_operand(opcode, place) << "\n";
  return 0;
}
