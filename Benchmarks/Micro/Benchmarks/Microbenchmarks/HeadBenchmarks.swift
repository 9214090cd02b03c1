import Benchmark
import CloakroomCore
import CloakroomWire
import NIOCore

/// Parsing of heads, and the policy that decides which fields of a request are forwarded.
func headBenchmarks() {
    requestBenchmark("Parse a request head, 4 fields", Samples.smallRequest)
    requestBenchmark("Parse a request head, 17 fields", Samples.browserRequest())

    Benchmark("Parse a response head, 9 fields") { benchmark in
        let input = ByteBuffer(string: Samples.response)
        var parser = HeadParser(limits: HeadLimits())
        var head = ResponseHead()
        for _ in benchmark.scaledIterations {
            head.reset()
            var buffer = input
            guard try parser.parse(&buffer, into: &head) else { return benchmark.error("the head is incomplete") }
            blackHole(head.status)
        }
    }

    Benchmark("Request header policy, 17 fields") { benchmark in
        let policy = RequestHeaderPolicy(injectable: ["X-API-TOKEN"], cookie: SessionCookie(.defaults))
        var buffer = ByteBuffer(string: Samples.browserRequest())
        var parser = HeadParser(limits: HeadLimits())
        var head = RequestHead()
        guard try parser.parse(&buffer, into: &head) else { return benchmark.error("the head is incomplete") }
        for _ in benchmark.scaledIterations {
            blackHole(policy.apply(&head, isTrusted: false))
        }
    }
}

private func requestBenchmark(_ name: String, _ text: String) {
    Benchmark(name) { benchmark in
        let input = ByteBuffer(string: text)
        var parser = HeadParser(limits: HeadLimits())
        var head = RequestHead()
        for _ in benchmark.scaledIterations {
            head.reset()
            var buffer = input
            guard try parser.parse(&buffer, into: &head) else { return benchmark.error("the head is incomplete") }
            blackHole(head.target)
        }
    }
}
