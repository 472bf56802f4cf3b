#include <math.h>
#define REAL_FUNCTIONS(UNARY)
