import FuzzTargets
import Glibc

/// What libFuzzer calls with every input. It brings its own `main`; the target is named by `CLOAKROOM_FUZZ_TARGET`.
///
/// The pointer is libFuzzer's interface; it is copied at once.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: start, count: count))
    do throws(Violation) {
        try chosen.check(bytes)
    } catch {
        complain("\(chosen.name): \(error)")
        // The one way to tell libFuzzer that the input is to be kept.
        abort()
    }
    return 0
}

private let chosen: FuzzTarget = {
    let name = getenv("CLOAKROOM_FUZZ_TARGET").map { String(cString: $0) } ?? ""
    guard let target = FuzzTarget.named(name) else {
        complain("CLOAKROOM_FUZZ_TARGET has to be one of \(FuzzTarget.all.map(\.name))")
        exit(2)
    }
    return target
}()

/// Writes a line that is not lost with the process, as what is printed would be.
private func complain(_ text: String) {
    let line = Array("cloakroom-fuzz: \(text)\n".utf8)
    _ = write(STDERR_FILENO, line, line.count)
}
