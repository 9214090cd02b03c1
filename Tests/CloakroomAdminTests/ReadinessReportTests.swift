import Testing

@testable import CloakroomAdmin

@Suite("Readiness report")
struct ReadinessReportTests {
    @Test("Without checks there is nothing against it")
    func empty() async {
        #expect(await ReadinessReport.make([]).isReady)
    }

    @Test("A check that does not answer in time does not hold")
    func late() async {
        let never = ReadinessProbe(name: "store") {
            // Ends when it is cancelled, which is what happens once the time is over.
            try? await Task.sleep(for: .seconds(3_600))
            return ReadinessCheck(name: "store", isReady: true)
        }
        let report = await ReadinessReport.make([never], timeLimit: .milliseconds(1))
        #expect(report.checks == [ReadinessCheck(name: "store", isReady: false, detail: "no answer in time")])
        #expect(!report.isReady)
    }

    @Test("Results stand in the order of the checks, whichever answers first")
    func order() async {
        let probes = (0..<10).map { index in
            ReadinessProbe(name: "\(index)") {
                for _ in 0..<(10 - index) { await Task.yield() }
                return ReadinessCheck(name: "\(index)", isReady: index != 4)
            }
        }
        let report = await ReadinessReport.make(probes, timeLimit: .seconds(60))
        #expect(report.checks.map(\.name) == (0..<10).map(String.init))
        #expect(!report.isReady)
    }
}
