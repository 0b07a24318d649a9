// SPDX-License-Identifier: Apache-2.0
// The cases by theme; each function runs those of its ids that are wanted. Bars: models design, section 7, and the acceptance
// list of the kernels. Internal to the benchmark; one thread.
#pragma once

#include "kernels/graph/csr.h"
#include "runtime/bench/context.h"
#include "runtime/bench/dense_problem.h"
#include "runtime/bench/python_peer.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace megagraph::runtime::bench {

/// Dense problems share graphs: one per size.
class DenseGraphs {
  public:
    const kernels::Csr& of(int64_t nodes);

  private:
    std::map<int64_t, kernels::Csr> made_;
};

/// Sizes of the dense comparisons; `judged` as the bars say.
struct SizedCase { DenseSize size; bool judged = true; };
std::vector<SizedCase> denseSizes(const Context& context);

Row denseRow(const std::string& id, const std::string& what, const DenseSize& size, const Context& context);
/// What the set of kernels in use can reach at most on bf16 tensors: AMX, dot products, or fp32 on widened blocks.
const Ceiling& bf16Ceiling(const Peaks& peaks);
/// The ceiling for tensors of this kind and the set in use, with one thread or all; the best of the run so far.
double peakOf(Context& context, bool bf16, bool oneThread);

void plainCases(Context& context);                                               // C1
void frozenBiasCases(Context& context, DenseGraphs& graphs);                     // C2
void learnedBiasCases(Context& context, DenseGraphs& graphs);                    // C3
void formulaCases(Context& context, DenseGraphs& graphs, PythonPeer& python);    // C4, C5
void edgeCases(Context& context, PythonPeer& python);                            // C6, C7, B5
void distanceCases(Context& context, PythonPeer& python);                        // C8
void absentCases(Context& context);                                              // C9, G1 to G8
void ceilingCases(Context& context, DenseGraphs& graphs);                        // B2
void memoryCases(Context& context, DenseGraphs& graphs);                         // B3
void searchCases(Context& context);                                              // B4
void laplacianCases(Context& context);                                           // B6

} // namespace megagraph::runtime::bench
