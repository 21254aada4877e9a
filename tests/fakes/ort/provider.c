// SPDX-License-Identifier: Apache-2.0
// The library of a provider, and those of CUDA that it names: what they need is all there is of
// them.
int FUNCTION(void);
int FUNCTION(void)
{
  return 0;
}
