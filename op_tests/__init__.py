"""What is tested and how: records, catalogue, sample bank, targets, comparer, runner, capture.

Needs torch, except `records`, which is standard library only and is all that coverage_db and web may import.
Imported by cli and workers; imports translators and nothing else of ours.
"""
